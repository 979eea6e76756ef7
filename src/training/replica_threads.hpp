// Threads that do parts of a job together and may wait for each other in the middle of it.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mrmf {

/// Each member keeps its thread for life and uses one OpenMP thread in it. At most `at_once` members compute at a time.
class ReplicaThreads {
 public:
  /// FaultError when that many threads cannot be started.
  ReplicaThreads(int size, int at_once);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs job(i) in every member i and returns when all are done. Whenever all unfinished members wait in barrier(),
  /// runs `at_barrier` in the caller's thread. When all members are done, throws the error of a job or of `at_barrier`.
  void run(
      const std::function<void(int)>& job, const std::function<void()>& at_barrier = [] {});
  /// Call from within a job: waits for the others, and for the end of `at_barrier`. All members that call it must call
  /// it equally often.
  void barrier();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void live(int member);
  void take_slot(Lock& lock);
  void leave_slot();
  void fail();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;  // any of the following
  const std::function<void(int)>* job_ = nullptr;
  int jobs_ = 0, barriers_ = 0;  // so far
  int done_ = 0, waiting_ = 0;   // members, in the job under way
  int free_slots_;               // for members that compute
  bool end_ = false;
  std::exception_ptr error_;  // first error of the current job
  std::vector<std::thread> members_;
};

}  // namespace mrmf
