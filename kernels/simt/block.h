// A block of threads on one OS thread: its fibers, its shared memory, and the
// rendezvous points where they meet.
//
//   ready lanes --pick, by chance--> running --collective--> waiting in its warp
//        ^                              |    --barrier----> waiting in the block
//        |                              +--- return ------> exited
//        +-- the last lane to arrive works out every lane's result
//
// A lane that waits switches straight to the next ready lane. If there is none,
// and not all have exited, nothing can ever go on: that is the error. A block that
// failed is left where it stands; its stacks are cleared before the next.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives.h"
#include "fiber.h"
#include "kernel.h"

namespace lanepack::simt {

constexpr u32 LANES = 32;
constexpr u32 MAX_THREADS = 1024;
// Static shared memory of a block on every GPU.
constexpr size_t SHARED_LIMIT = 48 << 10;
// With what a launch can ask for: MAX_DYNAMIC_SHARED of ../lanepack/base.cuh.
constexpr size_t DYNAMIC_SHARED_LIMIT = 99 << 10;
// What memory holds that was never written.
constexpr u8 UNWRITTEN = 0xA5;

class Block;

// What a lane waits for, and what it got.
struct Rendezvous {
    Op op;
    u32 mask;
    u32 source;
    Site site;
    u64 value;
    u64 result;

    bool same(const Rendezvous& other) const {
        return op == other.op && mask == other.mask && site.line == other.site.line &&
               (site.file == other.site.file || std::strcmp(site.file, other.site.file) == 0);
    }
};

struct Lane : Position {
    Block* block;
    u32 warp;
    Rendezvous rendezvous;
    Fiber fiber;
};

struct Warp {
    u32 existing, live, ready, waiting;
};

struct SharedVariable {
    const void* declaration;
    char* address;
};

// One kernel's launch, as all its blocks see it.
struct Grid {
    const Kernel* kernel;
    const void* arguments;
    u32 blocks;
    u64 seed;
};

class Block {
   public:
    Block();
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    // Runs block `index`; false if it failed.
    bool run(const Grid& grid, u32 index);
    // What went wrong.
    const std::string& error() const { return error_; }

    // What the thread that runs asks for.
    u32 barrier(Op op, bool predicate, Site site);
    u64 collective(Op op, u32 mask, u64 value, u32 source, Site site);
    void pass();
    void* shared(const void* declaration, const char* name, size_t size, size_t alignment, bool is_dynamic);
    [[noreturn]] void fail(const std::string& what, Site site);

    // The thread that runs.
    static Lane& current() { return *static_cast<Lane*>(const_cast<Position*>(position)); }

   private:
    static void enter(void* lane);
    void exit(Lane& lane);
    void grow(u32 threads);
    void clear_stack(u32 thread);
    void clear_shared();

    // Switches to the next ready lane, back to `lane` when it is its turn again.
    void leave(Lane& lane);
    void stop(Lane& lane);
    Lane* pick(u32 warp);
    void make_ready(u32 warp, u32 lanes);
    u64 random();

    void complete(Warp& warp, const Rendezvous& one);
    void exchange(Lane* lanes, u32 mask, Op op);
    void release();
    std::string waits() const;

    const Grid* grid_ = nullptr;
    u32 index_ = 0;
    u64 state_ = 0;
    bool failed_ = false;
    std::string error_;

    std::unique_ptr<Lane[]> lanes_;
    std::unique_ptr<Warp[]> warps_;
    // The stacks, each with a page below that nothing can touch.
    char* stacks_ = nullptr;
    u32 stacks_made_ = 0;
    // Those of the threads that run now.
    Stacks used_;
    Fiber host_;

    u32 threads_ = 0;
    // Warps with ready lanes.
    u32 ready_warps_ = 0;
    u32 live_ = 0;

    // The barrier that threads wait at, how many do, and for how many the predicate holds.
    Rendezvous barrier_ = {};
    u32 at_barrier_ = 0;
    u32 holding_ = 0;
    u32 released_ = 0;

    char* arena_ = nullptr;
    size_t arena_used_ = 0;
    size_t shared_bytes_ = 0;
    size_t declared_bytes_ = 0;
    std::vector<SharedVariable> variables_;
};

}  // namespace lanepack::simt
