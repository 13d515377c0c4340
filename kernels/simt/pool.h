// The OS threads that take a launch's blocks, and the blocks' stacks, both kept
// from one launch to the next.
//
// The thread that launches takes blocks itself; LANEPACK_SIMT_THREADS - 1 others
// (by default one per core in all) help it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"

namespace lanepack::simt {

// A launch that is being run.
class Job {
   public:
    explicit Job(const Grid& grid);

    // Runs all blocks; empty, or the error of the first block in order of those that failed.
    std::string run();

   private:
    friend class Pool;

    bool has_work() const { return !failed_ && taken_ < grid_.blocks; }
    // Takes blocks until there are no more.
    void take_blocks();

    const Grid grid_;
    // Where the order of the blocks begins and by how much it steps.
    u32 start_;
    u32 step_;
    std::atomic<u64> taken_ = 0;
    std::atomic<bool> failed_ = false;
    // Guarded by the pool's mutex.
    u32 helpers_ = 0;
    u32 failed_block_ = 0;
    std::string error_;
};

// There is one, which is never destroyed: its threads may outlive main.
class Pool {
   public:
    static Pool& get();

    void run(Job& job);
    std::unique_ptr<Block> take_block();
    void give_block(std::unique_ptr<Block> block);
    void report(Job& job, u32 block, const std::string& error);

   private:
    Pool();
    void help();
    Job* next_job() const;

    std::mutex mutex_;
    // A job came, or a helper left one.
    std::condition_variable changed_;
    std::vector<Job*> jobs_;
    std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace lanepack::simt
