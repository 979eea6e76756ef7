// Threads that do a job together, each its part, and may meet in the middle of it.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mrmf {

/// Each member keeps its thread for life, and one OpenMP thread within; at most `at_once` members compute at a time.
class Crew {
 public:
  /// FaultError: so many threads cannot be started.
  Crew(int size, int at_once);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs job(i) in every member i and returns when all are done. Whenever all that are not done wait in meet(), runs
  /// `meeting` in the caller's thread. Throws what a job or a meeting threw, when all members are done.
  void run(
      const std::function<void(int)>& job, const std::function<void()>& meeting = [] {});
  /// From within a job: waits for the next meeting to end. All members that meet at all meet equally often.
  void meet();

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
  int jobs_ = 0, meetings_ = 0;  // so far
  int done_ = 0, waiting_ = 0;   // members, in the job under way
  int places_;                   // for members that compute: free ones
  bool end_ = false;
  std::exception_ptr error_;  // the first of the job under way
  std::vector<std::thread> members_;
};

}  // namespace mrmf
