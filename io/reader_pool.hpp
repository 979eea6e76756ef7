// Threads that read rows while others compute.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "io/sample_files.hpp"

namespace mrmf {

/// Neighbouring rows and where to read them to.
struct ReadTask {
  Range rows;
  std::byte* to = nullptr;
};

class ReaderPool {
 public:
  /// Runs on the pool's threads; wait() rethrows its errors.
  using Read = std::function<void(const ReadTask&, Scratch&)>;

  /// Tasks submitted together. Must live until they are waited for or cancelled.
  struct Ticket {
    Index left = 0;
    Index failed_row = std::numeric_limits<Index>::max();
    std::exception_ptr error;  // error of the first row that failed, whichever thread was first
  };

  ReaderPool(int threads, Read read);  ///< FaultError when that many threads cannot be started
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;
  ~ReaderPool();

  void submit(Ticket& ticket, const std::vector<ReadTask>& tasks);
  /// Waits for all of the ticket's tasks; throws the error of the first row that failed.
  void wait(Ticket& ticket);
  /// Drops tasks that have not begun and waits for the rest; drops their errors, too.
  void cancel();

 private:
  struct Job {
    ReadTask task;
    Ticket* ticket;
  };
  void work();

  Read read_;
  std::mutex mutex_;
  std::condition_variable work_there_, work_done_;
  std::deque<Job> jobs_;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace mrmf
