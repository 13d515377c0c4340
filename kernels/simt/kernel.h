// The table of kernels.
#pragma once

#include "types.h"

namespace lanepack::simt {

// A kernel that can be launched by its name. Every LANEPACK_KERNEL adds one to
// the list before main begins.
struct Kernel {
    Kernel(const char* name, u32 threads, unsigned long size, unsigned long alignment, void (*run)(const void*));

    const char* name;
    u32 threads;
    unsigned long size;
    unsigned long alignment;
    void (*run)(const void*);
    const Kernel* next;
};

}  // namespace lanepack::simt
