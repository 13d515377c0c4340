// Where the lanes of a warp and the threads of a block meet: part of Block.

#include <cstdio>

#include "block.h"

namespace lanepack::simt {

namespace {

const char* name_of(Op op) {
    switch (op) {
        case Op::syncthreads: return "__syncthreads";
        case Op::syncthreads_count: return "__syncthreads_count";
        case Op::syncthreads_and: return "__syncthreads_and";
        case Op::syncthreads_or: return "__syncthreads_or";
        case Op::syncwarp: return "__syncwarp";
        case Op::shfl: return "__shfl_sync";
        case Op::shfl_up: return "__shfl_up_sync";
        case Op::shfl_down: return "__shfl_down_sync";
        case Op::shfl_xor: return "__shfl_xor_sync";
        case Op::ballot: return "__ballot_sync";
        case Op::any: return "__any_sync";
        case Op::all: return "__all_sync";
        case Op::match_any: return "__match_any_sync";
        case Op::match_all: return "__match_all_sync";
        case Op::reduce_add: return "__reduce_add_sync";
        case Op::reduce_min:
        case Op::reduce_min_signed: return "__reduce_min_sync";
        case Op::reduce_max:
        case Op::reduce_max_signed: return "__reduce_max_sync";
        case Op::reduce_and: return "__reduce_and_sync";
        case Op::reduce_or: return "__reduce_or_sync";
        case Op::reduce_xor: return "__reduce_xor_sync";
    }
    return "?";
}

std::string hex(u32 value) {
    char text[16];
    std::snprintf(text, sizeof(text), "%#010x", value);
    return text;
}

// The reduction of two 32-bit values.
u32 reduced(Op op, u32 x, u32 y) {
    const bool less = op == Op::reduce_min_signed || op == Op::reduce_max_signed
                          ? static_cast<int>(x) < static_cast<int>(y)
                          : x < y;
    switch (op) {
        case Op::reduce_min:
        case Op::reduce_min_signed: return less ? x : y;
        case Op::reduce_max:
        case Op::reduce_max_signed: return less ? y : x;
        case Op::reduce_and: return x & y;
        case Op::reduce_or: return x | y;
        case Op::reduce_xor: return x ^ y;
        default: return x + y;
    }
}

}  // namespace

u64 Block::collective(Op op, u32 mask, u64 value, u32 source, Site site) {
    Lane& lane = current();
    Warp& warp = warps_[lane.warp];
    const u32 bit = 1u << lane.thread.x % LANES;
    // Lanes that the last warp of a block does not have count as done.
    mask &= warp.existing;
    if ((mask & bit) == 0) {
        fail(std::string(name_of(op)) + " with mask " + hex(mask) + ", which leaves the lane itself out", site);
    }
    if ((mask & ~warp.live) != 0) {
        fail(std::string(name_of(op)) + " with mask " + hex(mask) + " names lanes " + hex(mask & ~warp.live) +
                 ", which have returned",
             site);
    }
    lane.rendezvous = {op, mask, source, site, value, 0};
    warp.waiting |= bit;
    if ((warp.waiting & mask) == mask) complete(warp, lane.rendezvous);
    leave(lane);
    return lane.rendezvous.result;
}

// Lets the lanes of a mask go on if all of them wait for the same.
void Block::complete(Warp& warp, const Rendezvous& one) {
    const u32 index = static_cast<u32>(&warp - warps_.get());
    Lane* lanes = &lanes_[index * LANES];
    for (u32 rest = one.mask; rest != 0; rest &= rest - 1) {
        if (!lanes[__builtin_ctz(rest)].rendezvous.same(one)) return;
    }
    exchange(lanes, one.mask, one.op);
    warp.waiting &= ~one.mask;
    make_ready(index, one.mask);
}

// Works out the result of every lane, so that none needs another's value later.
void Block::exchange(Lane* lanes, u32 mask, Op op) {
    const auto each = [&](auto&& visit) {
        for (u32 rest = mask; rest != 0; rest &= rest - 1) {
            const u32 lane = static_cast<u32>(__builtin_ctz(rest));
            visit(lane, lanes[lane].rendezvous);
        }
    };
    u64 common = 0;
    switch (op) {
        case Op::syncwarp: return;
        case Op::shfl:
        case Op::shfl_up:
        case Op::shfl_down:
        case Op::shfl_xor:
            each([&](u32, Rendezvous& to) {
                // CUDA gives anything for a lane outside of the mask.
                const bool inside = to.source < LANES && (mask >> to.source & 1) != 0;
                to.result = inside ? lanes[to.source].rendezvous.value : 0x0101010101010101ull * UNWRITTEN;
            });
            return;
        case Op::match_any:
            each([&](u32, Rendezvous& to) {
                to.result = 0;
                each([&](u32 lane, const Rendezvous& from) {
                    to.result |= static_cast<u64>(from.value == to.value) << lane;
                });
            });
            return;
        case Op::match_all: {
            const u64 first = lanes[__builtin_ctz(mask)].rendezvous.value;
            common = mask;
            each([&](u32, const Rendezvous& from) { common = from.value == first ? common : 0; });
            break;
        }
        case Op::ballot:
        case Op::any:
        case Op::all:
            each([&](u32 lane, const Rendezvous& from) { common |= from.value << lane; });
            if (op == Op::any) common = common != 0;
            if (op == Op::all) common = common == mask;
            break;
        default: {
            const u32 first = static_cast<u32>(__builtin_ctz(mask));
            common = static_cast<u32>(lanes[first].rendezvous.value);
            each([&](u32 lane, const Rendezvous& from) {
                if (lane != first) common = reduced(op, static_cast<u32>(common), static_cast<u32>(from.value));
            });
        }
    }
    each([&](u32, Rendezvous& to) { to.result = common; });
}

u32 Block::barrier(Op op, bool predicate, Site site) {
    Lane& lane = current();
    const Rendezvous here = {op, 0, 0, site, 0, 0};
    if (at_barrier_ == 0) {
        barrier_ = here;
    } else if (!barrier_.same(here)) {
        fail(std::string(name_of(op)) + " while others of its block wait at " + name_of(barrier_.op) + " (" +
                 barrier_.site.file + ":" + std::to_string(barrier_.site.line) + ")",
             site);
    }
    at_barrier_++;
    holding_ += predicate;
    if (at_barrier_ == live_) release();
    leave(lane);
    return released_;
}

// All live threads have come to the barrier. Its result lasts until the next one
// is complete, before which every thread has read it.
void Block::release() {
    switch (barrier_.op) {
        case Op::syncthreads_and: released_ = holding_ == at_barrier_; break;
        case Op::syncthreads_or: released_ = holding_ != 0; break;
        default: released_ = holding_;
    }
    at_barrier_ = 0;
    holding_ = 0;
    for (u32 warp = 0; warp * LANES < threads_; warp++) make_ready(warp, warps_[warp].live);
}

// What the threads that have not returned wait for, those alike together.
std::string Block::waits() const {
    struct Group {
        const Rendezvous* what;
        std::string threads;
        u32 last;
    };
    std::vector<Group> groups;
    for (u32 thread = 0; thread < threads_; thread++) {
        const Warp& warp = warps_[thread / LANES];
        const u32 bit = 1u << thread % LANES;
        // A thread waits in its warp, or at the barrier, or could run.
        const bool in_warp = (warp.waiting & bit) != 0;
        if (!in_warp && ((warp.live & ~warp.ready & bit) == 0 || at_barrier_ == 0)) continue;
        const Rendezvous* what = in_warp ? &lanes_[thread].rendezvous : &barrier_;
        Group* group = nullptr;
        for (Group& one : groups) {
            if (one.what->same(*what)) group = &one;
        }
        if (group == nullptr) {
            groups.push_back({what, std::to_string(thread), thread});
        } else if (group->last + 1 != thread) {
            group->threads += "-" + std::to_string(group->last) + ", " + std::to_string(thread);
        }
        if (group != nullptr) group->last = thread;
    }
    std::string text;
    for (const Group& group : groups) {
        if (!text.empty()) text += "; ";
        text += "threads " + group.threads + "-" + std::to_string(group.last) + " wait at " + name_of(group.what->op);
        if (group.what != &barrier_) text += " with mask " + hex(group.what->mask);
        text += std::string(" (") + group.what->site.file + ":" + std::to_string(group.what->site.line) + ")";
    }
    return text;
}

}  // namespace lanepack::simt
