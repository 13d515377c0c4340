#include "pool.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

namespace lanepack::simt {

namespace {

u32 thread_count() {
    if (const char* text = std::getenv("LANEPACK_SIMT_THREADS")) {
        return static_cast<u32>(std::clamp(std::atoi(text), 1, 256));
    }
    return std::clamp(std::thread::hardware_concurrency(), 1u, 256u);
}

}  // namespace

Job::Job(const Grid& grid) : grid_(grid) {
    const u64 chance = (grid.seed + 1) * 0x9e3779b97f4a7c15ull;
    start_ = static_cast<u32>((chance >> 32) % grid.blocks);
    step_ = static_cast<u32>(chance >> 16) % grid.blocks | 1;
    while (std::gcd(step_, grid.blocks) != 1) step_ += 2;
}

std::string Job::run() {
    Pool::get().run(*this);
    return error_;
}

void Job::take_blocks() {
    std::unique_ptr<Block> block = Pool::get().take_block();
    while (has_work()) {
        const u64 turn = taken_++;
        if (turn >= grid_.blocks) break;
        const u32 index = static_cast<u32>((start_ + turn * step_) % grid_.blocks);
        if (!block->run(grid_, index)) Pool::get().report(*this, index, block->error());
    }
    Pool::get().give_block(std::move(block));
}

Pool& Pool::get() {
    static Pool* pool = new Pool;
    return *pool;
}

Pool::Pool() {
    for (u32 thread = 1; thread < thread_count(); thread++) std::thread([this] { help(); }).detach();
}

void Pool::run(Job& job) {
    // One block is no work to share.
    const bool shared = job.grid_.blocks > 1;
    if (shared) {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(&job);
        changed_.notify_all();
    }
    job.take_blocks();
    if (shared) {
        std::unique_lock lock(mutex_);
        jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
        changed_.wait(lock, [&] { return job.helpers_ == 0; });
    }
}

Job* Pool::next_job() const {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(), [](Job* job) { return job->has_work(); });
    return job == jobs_.end() ? nullptr : *job;
}

void Pool::help() {
    std::unique_lock lock(mutex_);
    for (;;) {
        // Looked for once: others take blocks without the mutex, until a job has none.
        Job* job = nullptr;
        changed_.wait(lock, [&] { return (job = next_job()) != nullptr; });
        job->helpers_++;
        lock.unlock();
        job->take_blocks();
        lock.lock();
        job->helpers_--;
        changed_.notify_all();
    }
}

std::unique_ptr<Block> Pool::take_block() {
    {
        const std::lock_guard lock(mutex_);
        if (!blocks_.empty()) {
            std::unique_ptr<Block> block = std::move(blocks_.back());
            blocks_.pop_back();
            return block;
        }
    }
    return std::make_unique<Block>();
}

void Pool::give_block(std::unique_ptr<Block> block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::move(block));
}

void Pool::report(Job& job, u32 block, const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (!job.failed_ || block < job.failed_block_) {
        job.failed_block_ = block;
        job.error_ = error;
    }
    job.failed_ = true;
}

}  // namespace lanepack::simt
