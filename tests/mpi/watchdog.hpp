// Ends a test run that hangs: a rank that waits for one that is elsewhere would wait for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mrmf::test {

class Watchdog {
 public:
  Watchdog(std::chrono::seconds limit, int rank);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// A test begins or ends: the clock starts again.
  void progress(const std::string& where);

 private:
  void watch();
  std::chrono::seconds limit_;
  int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string where_ = "start-up";
  bool done_ = false;
  unsigned steps_ = 0;
  std::thread thread_;
};

}  // namespace mrmf::test
