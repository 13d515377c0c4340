// Values of a vector by their position, in any order and each by itself: for kernels that
// want few of them. Two loads a value and no look at others; exceptions of alp are for
// whoever asks (exceptions.cuh).
#pragma once

#include "alp.cuh"
#include "ffor.cuh"

namespace lanepack {

// The values of a vector of integers or, with `FLOATS`, of floats by their bits.
template <class T, bool FLOATS>
struct VectorValues {
    T base;
    const T* words;
    u32 width;
    bool is_plain;
    bool is_alp;
    T scale;

    VectorValues() = default;
    LANEPACK_DEVICE VectorValues(const Node& node, u32 vector)
        : base(static_cast<T>(node.parameter)),
          words(reinterpret_cast<const T*>(node.buffer[0]) + vector * VECTOR),
          width(0),
          is_plain(node.encoding == PLAIN),
          is_alp(FLOATS && node.encoding == ALP),
          scale(0) {
        if (is_alp) {
            if constexpr (FLOATS) {
                const AlpVector<T> parameters(node, vector);
                base = 0;
                words = parameters.packed.words;
                width = parameters.packed.width;
                scale = parameters.scale;
            }
        } else if (node.encoding == FFOR) {
            const FforVector<T> parameters(node, vector);
            base = parameters.base;
            words = parameters.packed.words;
            width = parameters.packed.width;
        }
    }

    LANEPACK_DEVICE T at(u32 position) const {
        if (is_plain) return __ldg(words + position);
        T value = base;
        if (width > 0) {
            const u32 bit = row_at<T>(position) * width;
            const T* word = words + bit / ROWS<T> * LANES<T> + position % LANES<T>;
            const T high = bit % ROWS<T> + width > ROWS<T> ? __ldg(word + LANES<T>) : T{0};
            value = static_cast<T>(base + (funnel<T>(__ldg(word), high, bit % ROWS<T>) & low_bits<T>(width)));
        }
        if constexpr (FLOATS) {
            if (is_alp) return AlpStep<T>(scale).value(value);
        }
        return value;
    }
};

}  // namespace lanepack
