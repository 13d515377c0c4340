// Loads and stores with cache hints: plain ones here.
#pragma once

namespace lanepack::simt {

// Not deduced: the pointer alone says the type, the value converts to it.
template <class T>
struct StoredType {
    using Type = T;
};

}  // namespace lanepack::simt

#define LANEPACK_LOAD(name)                                                                                   \
    template <class T>                                                                                        \
    T name(const T* address) {                                                                                \
        return *address;                                                                                      \
    }
#define LANEPACK_STORE(name)                                                                                  \
    template <class T>                                                                                        \
    void name(T* address, typename ::lanepack::simt::StoredType<T>::Type value) {                             \
        *address = value;                                                                                     \
    }

LANEPACK_LOAD(__ldg)
LANEPACK_LOAD(__ldca)
LANEPACK_LOAD(__ldcg)
LANEPACK_LOAD(__ldcs)
LANEPACK_LOAD(__ldlu)
LANEPACK_LOAD(__ldcv)
LANEPACK_STORE(__stwb)
LANEPACK_STORE(__stcg)
LANEPACK_STORE(__stcs)
LANEPACK_STORE(__stwt)

#undef LANEPACK_LOAD
#undef LANEPACK_STORE
