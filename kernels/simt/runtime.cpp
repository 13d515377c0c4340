// What Rust calls (src/gpu/simt/ffi.rs): memory, and launches of kernels by name,
// whose blocks several OS threads take in an order drawn from the seed.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "pool.h"

namespace lanepack::simt {

// Not initialised at run time: kernels of any file may come first.
const Kernel* kernels = nullptr;

namespace {

const Kernel* find(const Kernel* first, const char* name) {
    for (const Kernel* kernel = first; kernel != nullptr; kernel = kernel->next) {
        if (std::strcmp(kernel->name, name) == 0) return kernel;
    }
    return nullptr;
}

// The arguments in memory of their own, so that nothing can be read beyond them.
struct Arguments {
    Arguments(const Kernel& kernel, const void* bytes)
        : copy(::operator new(kernel.size, std::align_val_t(kernel.alignment))), alignment(kernel.alignment) {
        std::memcpy(copy, bytes, kernel.size);
    }
    ~Arguments() { ::operator delete(copy, std::align_val_t(alignment)); }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    void* copy;
    unsigned long alignment;
};

// Empty if all went well.
std::string launch(const Kernel* first, const char* name, u32 blocks, u32 threads, const void* bytes, size_t size,
                   const char* type, u64 seed) {
    const Kernel* kernel = find(first, name);
    if (kernel == nullptr) return "there is no such kernel";
    if (type != nullptr && std::strcmp(type, kernel->arguments) != 0) {
        return std::string("an argument of type ") + type + ", the kernel takes " + kernel->arguments;
    }
    if (threads != kernel->threads) {
        return "blocks of " + std::to_string(threads) + " threads, the kernel is made for " +
               std::to_string(kernel->threads);
    }
    if (size != kernel->size) {
        return "arguments of " + std::to_string(size) + " bytes, the kernel takes " + std::to_string(kernel->size);
    }
    if (blocks == 0) return "";
    const Arguments arguments(*kernel, bytes);
    Job job({kernel, arguments.copy, blocks, seed});
    return job.run();
}

}  // namespace

}  // namespace lanepack::simt

extern "C" {

// Runs all blocks of a kernel of the object with this table, or of the program for null; false, and
// a text in `error`, if that fails. `type` names the type of the argument; null if it is not known.
bool lanepack_simt_launch(const lanepack::simt::Kernel** object, const char* name, unsigned blocks, unsigned threads, const void* arguments, size_t size,
                          const char* type, unsigned long long seed, char* error, size_t error_size) {
    try {
        const lanepack::simt::Kernel* first = object != nullptr ? *object : lanepack::simt::kernels;
        const std::string what = lanepack::simt::launch(first, name, blocks, threads, arguments, size, type, seed);
        if (what.empty()) return true;
        std::snprintf(error, error_size, "%s", what.c_str());
    } catch (const std::exception& failure) {
        std::snprintf(error, error_size, "%s", failure.what());
    }
    return false;
}

// Threads of a block and bytes of arguments of a kernel of an object; false if it has none of
// this name.
bool lanepack_simt_shape(const lanepack::simt::Kernel** object, const char* name, unsigned* threads, size_t* size) {
    const lanepack::simt::Kernel* kernel = lanepack::simt::find(*object, name);
    if (kernel == nullptr) return false;
    *threads = kernel->threads;
    *size = kernel->size;
    return true;
}

// Memory that was never written, at a multiple of `alignment`; null if there is none.
void* lanepack_simt_allocate(size_t size, size_t alignment) {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, size) != 0) return nullptr;
    std::memset(memory, lanepack::simt::UNWRITTEN, size);
    return memory;
}

void lanepack_simt_free(void* memory) { std::free(memory); }

// The names of up to `capacity` kernels; how many there are.
size_t lanepack_simt_kernels(const char** names, size_t capacity) {
    size_t count = 0;
    for (const lanepack::simt::Kernel* kernel = lanepack::simt::kernels; kernel != nullptr; kernel = kernel->next) {
        if (count < capacity) names[count] = kernel->name;
        count++;
    }
    return count;
}

#if defined(LANEPACK_SIMT_ASAN)
// Rust keeps a few things for ever, and fibers that failed are left as they are.
// An allocation that is too large must become an error, not an abort.
const char* __asan_default_options() {
    return "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

}  // extern "C"
