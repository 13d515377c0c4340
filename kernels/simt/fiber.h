// Stacks that take turns on one OS thread.
//
// x86-64 switches with a dozen instructions; elsewhere ucontext does, whose system
// calls make a rendezvous cost 270 ns per lane instead of 17. Either way
// AddressSanitizer is told when a thread leaves its own stack for those of a block,
// and when it comes back. From one stack of a block to the next it is told nothing:
// that took as long as everything else of a switch.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(LANEPACK_SIMT_UCONTEXT)
#define LANEPACK_SIMT_UCONTEXT_FIBERS
#include <ucontext.h>
#endif

namespace lanepack::simt {

// The inside of a kernel's thread has this much stack, less a few KB.
constexpr size_t STACK = 64 << 10;

// Memory that holds the stacks of fibers that switch to each other.
struct Stacks {
    const void* bottom = nullptr;
    size_t size = 0;
};

class Fiber {
   public:
    Fiber() = default;
    Fiber(const Fiber&) = delete;

    // A fiber that runs `entry(argument)`, which never returns, once switched to.
    // `bottom` is the low end of its stack of STACK bytes, which lies in `all`; `colour`
    // moves the top, so that the stacks of a warp do not all fall into the same cache sets.
    void prepare(char* bottom, unsigned colour, Stacks& all, void (*entry)(void*), void* argument);

    // Leaves `from`, which is the fiber that runs, and goes on with this one.
    void switch_from(Fiber& from);

    // To be called first thing by `entry`.
    static void arrived(Fiber& self);

   private:
    // For AddressSanitizer. The host's own stack is known only once left.
    Stacks own_;
    Stacks* stacks_ = &own_;
    // Who switched here last.
    Fiber* previous_ = nullptr;
#if defined(LANEPACK_SIMT_UCONTEXT_FIBERS)
    ucontext_t context_;
    void (*entry_)(void*) = nullptr;
    void* argument_ = nullptr;
    static void start(unsigned high, unsigned low);
#else
    void* top_ = nullptr;
#endif
};

}  // namespace lanepack::simt
