// Threads that do a job together, each its part, and may wait for each other in the middle of it.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mrmf {

/// Each member keeps its thread for life, and one OpenMP thread within; at most `at_once` members compute at a time.
class WorkerPool {
 public:
  /// FaultError: so many threads cannot be started.
  WorkerPool(int size, int at_once);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs job(i) in every member i and returns when all are done. Whenever all that are not done wait in barrier(),
  /// runs `at_barrier` in the caller's thread. Throws what a job or `at_barrier` threw, when all members are done.
  void run(
      const std::function<void(int)>& job, const std::function<void()>& at_barrier = [] {});
  /// From within a job: waits for the others, and for `at_barrier` to end. All members that call it call it equally
  /// often.
  void barrier();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void live(int member);
  void take_place(Lock& lock);
  void leave_place();
  void fail();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;  // any of what follows
  const std::function<void(int)>* job_ = nullptr;
  int jobs_ = 0, barriers_ = 0;  // so far
  int done_ = 0, waiting_ = 0;   // members, in the job under way
  int places_;                   // for members that compute: free ones
  bool end_ = false;
  std::exception_ptr error_;  // the first of the job under way
  std::vector<std::thread> members_;
};

}  // namespace mrmf
