#include "fiber.h"

#include <cstdint>

#if defined(LANEPACK_SIMT_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace lanepack::simt {

namespace {

// Within a page, in steps of five cache lines.
constexpr size_t COLOUR_STEP = 320, COLOURS = 4096;

}  // namespace

#if defined(LANEPACK_SIMT_UCONTEXT_FIBERS)

void Fiber::start(unsigned high, unsigned low) {
    auto* fiber = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
    fiber->entry_(fiber->argument_);
}

void Fiber::prepare(char* bottom, unsigned colour, Stacks& all, void (*entry)(void*), void* argument) {
    stacks_ = &all;
    entry_ = entry;
    argument_ = argument;
    getcontext(&context_);
    context_.uc_stack.ss_sp = bottom;
    context_.uc_stack.ss_size = STACK - colour * COLOUR_STEP % COLOURS;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

#else

// Saves what a called function must keep on the stack and where it ends in *from;
// takes both from `to`. The processor predicts this `ret` and those of the callers:
// they go where the leaving fiber would have returned to, for lanes that wait at the
// same place. A jump instead made a shuffle cost 43 ns per lane, not 17.
extern "C" void lanepack_simt_switch(void** from, void* to);
extern "C" void lanepack_simt_start();
asm(R"(
    .text
    .p2align 4
    .globl lanepack_simt_switch
    .type lanepack_simt_switch, @function
lanepack_simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size lanepack_simt_switch, .-lanepack_simt_switch
    .globl lanepack_simt_start
    .type lanepack_simt_start, @function
lanepack_simt_start:
    movq %r13, %rdi
    callq *%r12
    ud2
    .size lanepack_simt_start, .-lanepack_simt_start
)");

void Fiber::prepare(char* bottom, unsigned colour, Stacks& all, void (*entry)(void*), void* argument) {
    stacks_ = &all;
    // r15, r14, r13, r12, rbx, rbp, where to go on; above it a multiple of 16.
    auto** top = reinterpret_cast<void**>(bottom + STACK - 64 - colour * COLOUR_STEP % COLOURS);
    *--top = reinterpret_cast<void*>(lanepack_simt_start);
    *--top = nullptr;
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    *--top = argument;
    *--top = nullptr;
    *--top = nullptr;
    top_ = top;
}

#endif

void Fiber::switch_from(Fiber& from) {
    previous_ = &from;
#if defined(LANEPACK_SIMT_ASAN)
    if (stacks_ != from.stacks_) __sanitizer_start_switch_fiber(nullptr, stacks_->bottom, stacks_->size);
#endif
#if defined(LANEPACK_SIMT_UCONTEXT_FIBERS)
    swapcontext(&from.context_, &context_);
#else
    lanepack_simt_switch(&from.top_, top_);
#endif
    arrived(from);
}

void Fiber::arrived([[maybe_unused]] Fiber& self) {
#if defined(LANEPACK_SIMT_ASAN)
    Stacks* left = self.previous_->stacks_;
    if (left != self.stacks_) __sanitizer_finish_switch_fiber(nullptr, &left->bottom, &left->size);
#endif
}

}  // namespace lanepack::simt
