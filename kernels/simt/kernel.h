// The table of kernels: one for the program, and one for each object that is
// compiled and loaded while it runs (object.h).
#pragma once

#include "types.h"

namespace lanepack::simt {

struct Kernel;

// The last kernel of this program or object. Hidden, or objects would share the program's.
[[gnu::visibility("hidden")]] extern const Kernel* kernels;

// A kernel that can be launched by its name. Every LANEPACK_KERNEL adds one to the
// list before main begins, or while its object is loaded, by the thread that loads it.
struct Kernel {
    [[gnu::visibility("hidden")]] Kernel(const char* name, u32 threads, const char* arguments, unsigned long size,
                                         unsigned long alignment, void (*run)(const void*))
        : name(name), threads(threads), arguments(arguments), size(size), alignment(alignment), run(run), next(kernels) {
        kernels = this;
    }

    const char* name;
    u32 threads;
    // The type of its argument, as the source names it.
    const char* arguments;
    unsigned long size;
    unsigned long alignment;
    void (*run)(const void*);
    const Kernel* next;
};

}  // namespace lanepack::simt
