#include "block.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(LANEPACK_SIMT_ASAN)
// By function: the macros of this header do nothing in a file that is not itself
// compiled with AddressSanitizer.
#include <sanitizer/asan_interface.h>
#endif

namespace lanepack::simt {

__thread const Position* position = nullptr;

namespace {

constexpr size_t PAGE = 4096, STRIDE = STACK + PAGE;
// Room for every variable's red zone.
constexpr size_t ARENA = 4 * SHARED_LIMIT;
constexpr size_t RED_ZONE = 32;

// One of the set bits.
u32 any_bit(u32 bits, u32 chance) {
    const u32 turn = chance % LANES;
    const u32 turned = bits >> turn | bits << (LANES - turn) % LANES;
    return (static_cast<u32>(__builtin_ctz(turned)) + turn) % LANES;
}

// Kernels may no longer touch the memory, or may.
void forbid([[maybe_unused]] const void* address, [[maybe_unused]] size_t size) {
#if defined(LANEPACK_SIMT_ASAN)
    __asan_poison_memory_region(address, size);
#endif
}
void allow([[maybe_unused]] const void* address, [[maybe_unused]] size_t size) {
#if defined(LANEPACK_SIMT_ASAN)
    __asan_unpoison_memory_region(address, size);
#endif
}

}  // namespace

u32 barrier(Op op, bool predicate, Site site) { return Block::current().block->barrier(op, predicate, site); }
u64 collective(Op op, u32 mask, u64 value, u32 source, Site site) {
    return Block::current().block->collective(op, mask, value, source, site);
}
void pass() { Block::current().block->pass(); }
void fail(const char* what, Site site) { Block::current().block->fail(what, site); }
void* shared(const void* declaration, const char* name, unsigned long size, unsigned long alignment) {
    return Block::current().block->shared(declaration, name, size, alignment, false);
}

void* dynamic_shared(const void* declaration, const char* name, unsigned long size, unsigned long alignment) {
    return Block::current().block->shared(declaration, name, size, alignment, true);
}

Block::Block() : lanes_(new Lane[MAX_THREADS]), warps_(new Warp[MAX_THREADS / LANES]) {
    void* stacks = mmap(nullptr, MAX_THREADS * STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) throw std::bad_alloc();
    stacks_ = static_cast<char*>(stacks);
    arena_ = static_cast<char*>(std::aligned_alloc(PAGE, ARENA));
    if (arena_ == nullptr) throw std::bad_alloc();
    forbid(arena_, ARENA);
}

Block::~Block() {
    munmap(stacks_, MAX_THREADS * STRIDE);
    allow(arena_, ARENA);
    std::free(arena_);
}

void Block::grow(u32 threads) {
    for (; stacks_made_ < threads; stacks_made_++) {
        char* bottom = stacks_ + stacks_made_ * STRIDE + PAGE;
        if (mprotect(bottom, STACK, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        Lane& lane = lanes_[stacks_made_];
        lane.thread = {stacks_made_, 0, 0};
        lane.block = this;
        lane.warp = stacks_made_ / LANES;
        clear_stack(stacks_made_);
    }
}

void Block::clear_stack(u32 thread) {
    char* bottom = stacks_ + thread * STRIDE + PAGE;
    // Frames of functions that never returned are still marked.
    allow(bottom, STACK);
    lanes_[thread].fiber.prepare(bottom, thread, used_, enter, &lanes_[thread]);
}

void Block::clear_shared() {
    forbid(arena_, arena_used_);
    arena_used_ = 0;
    shared_bytes_ = declared_bytes_ = 0;
    variables_.clear();
}

void Block::enter(void* pointer) {
    Lane& lane = *static_cast<Lane*>(pointer);
    Fiber::arrived(lane.fiber);
    // A fiber stays for all blocks to come, perhaps on another OS thread each time.
    for (;;) {
        const Grid& grid = *lane.block->grid_;
        grid.kernel->run(grid.arguments);
        lane.block->exit(lane);
    }
}

bool Block::run(const Grid& grid, u32 index) {
    grid_ = &grid;
    index_ = index;
    state_ = (grid.seed + 1) * 0x9e3779b97f4a7c15ull ^ (index + 1ull) * 0xd1342543de82ef95ull;
    threads_ = grid.kernel->threads;
    grow(threads_);
    used_ = {stacks_, threads_ * STRIDE};
    live_ = threads_;
    at_barrier_ = 0;
    holding_ = 0;
    ready_warps_ = 0;
    for (u32 warp = 0; warp * LANES < threads_; warp++) {
        const u32 lanes = threads_ - warp * LANES;
        const u32 existing = lanes >= LANES ? ~0u : (1u << lanes) - 1;
        warps_[warp] = {existing, existing, existing, 0};
        ready_warps_ |= 1u << warp;
    }
    for (u32 thread = 0; thread < threads_; thread++) {
        static_cast<Position&>(lanes_[thread]) = {
            {thread, 0, 0}, {index, 0, 0}, {threads_, 1, 1}, {grid.blocks, 1, 1}};
    }

    Lane* first = pick(0);
    position = first;
    first->fiber.switch_from(host_);
    position = nullptr;

    if (failed_) {
        failed_ = false;
        for (u32 thread = 0; thread < threads_; thread++) clear_stack(thread);
        clear_shared();
        return false;
    }
    clear_shared();
    return true;
}

u64 Block::random() {
    state_ += 0x9e3779b97f4a7c15ull;
    const u64 mixed = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9ull;
    return mixed ^ mixed >> 29;
}

Lane* Block::pick(u32 warp) {
    if (ready_warps_ == 0) return nullptr;
    const u64 chance = random();
    // Warps mostly run until they wait, now and then one overtakes.
    if (warps_[warp].ready == 0 || (chance >> 16 & 7) == 0) warp = any_bit(ready_warps_, chance >> 32 & 31);
    const u32 lane = any_bit(warps_[warp].ready, chance >> 40 & 31);
    warps_[warp].ready &= ~(1u << lane);
    if (warps_[warp].ready == 0) ready_warps_ &= ~(1u << warp);
    return &lanes_[warp * LANES + lane];
}

void Block::make_ready(u32 warp, u32 lanes) {
    if (lanes == 0) return;
    warps_[warp].ready |= lanes;
    ready_warps_ |= 1u << warp;
}

// Not inlined: after the switch another OS thread may be running the fiber (between
// blocks), so that nothing thread-local may be kept across it.
__attribute__((noinline)) void Block::leave(Lane& lane) {
    Lane* next = pick(lane.warp);
    if (next == &lane) return;
    if (next == nullptr) {
        if (live_ != 0) {
            failed_ = true;
            error_ = "block " + std::to_string(index_) + ": no thread can go on: " + waits();
        }
        stop(lane);
        return;
    }
    position = next;
    next->fiber.switch_from(lane.fiber);
}

__attribute__((noinline)) void Block::stop(Lane& lane) { host_.switch_from(lane.fiber); }

void Block::fail(const std::string& what, Site site) {
    Lane& lane = current();
    failed_ = true;
    error_ = "block " + std::to_string(index_) + ", thread " + std::to_string(lane.thread.x) + ": " + what;
    if (site.file != nullptr) error_ += std::string(" (") + site.file + ":" + std::to_string(site.line) + ")";
    stop(lane);
    __builtin_unreachable();
}

void Block::exit(Lane& lane) {
    Warp& warp = warps_[lane.warp];
    const u32 bit = 1u << lane.thread.x % LANES;
    warp.live &= ~bit;
    for (u32 waiting = warp.waiting; waiting != 0; waiting &= waiting - 1) {
        const u32 other = lane.warp * LANES + static_cast<u32>(__builtin_ctz(waiting));
        if ((lanes_[other].rendezvous.mask & bit) != 0) {
            fail("returns while lanes of its warp wait for it: " + waits(), {nullptr, 0});
        }
    }
    live_--;
    if (live_ != 0 && at_barrier_ == live_) release();
    leave(lane);
}

void Block::pass() {
    Lane& lane = current();
    make_ready(lane.warp, 1u << lane.thread.x % LANES);
    leave(lane);
}

void* Block::shared(const void* declaration, const char* name, size_t size, size_t alignment, bool is_dynamic) {
    for (const SharedVariable& variable : variables_) {
        if (variable.declaration == declaration) return variable.address;
    }
    // Declared variables have a limit of their own, whatever comes first.
    const auto take = [&](size_t& bytes, size_t limit) {
        bytes = (bytes + alignment - 1) / alignment * alignment + size;
        if (bytes <= limit) return;
        fail(std::string("shared memory of ") + std::to_string(bytes) + " bytes with " + name + ", there are " +
                 std::to_string(limit),
             {nullptr, 0});
    };
    if (!is_dynamic) take(declared_bytes_, SHARED_LIMIT);
    take(shared_bytes_, DYNAMIC_SHARED_LIMIT);
    // An odd multiple of the alignment.
    const size_t step = alignment * 2 > 16 ? alignment * 2 : 16;
    const size_t at = (arena_used_ + RED_ZONE + step - 1) / step * step + alignment;
    if (at + size + RED_ZONE > ARENA) fail("too many shared variables for the emulation", {nullptr, 0});
    arena_used_ = at + size;
    char* address = arena_ + at;
    allow(address, size);
    std::memset(address, UNWRITTEN, size);
    variables_.push_back({declaration, address});
    return address;
}

}  // namespace lanepack::simt
