// Which signals a run remembers, which stay ignored, and one that comes again. test_continuation.cpp has what a second
// signal does.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <string>

#include "src/run/signals.hpp"

using namespace mrmf;

namespace {

// What a process of its own returns; 128 + the number of the signal that ends it.
int result_of(const std::function<int()>& process) {
  const pid_t child = fork();
  if (child == 0) _exit(process());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The signal that a run remembers after one, and long after it a second one.
int remembered(int first, int second) {
  return result_of([=] {
    for (const int number : {SIGINT, SIGHUP}) std::signal(number, SIG_DFL);  // nohup and shells' `&` ignore them
    const StopSignals signals;
    std::raise(first);
    usleep(1'100'000);  // a second that comes sooner is an echo
    std::raise(second);
    return signals.received();
  });
}

int remembered_where_ignored(int number) {
  return result_of([=] {
    std::signal(number, SIG_IGN);
    const StopSignals signals;
    std::raise(number);
    return signals.received();
  });
}

}  // namespace

TEST_CASE("signals: those of terminals and batch systems are remembered, and SIGXCPU may come again") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    CAPTURE(number);
    CHECK(remembered(number, SIGXCPU) == number);
    CHECK(signal_name(number) == std::string("SIG") + sigabbrev_np(number));
  }
  CHECK(remembered(SIGXCPU, SIGHUP) == 128 + SIGHUP);
}

TEST_CASE("signals: a background job and nohup keep theirs ignored, and no batch system's is") {
  CHECK(remembered_where_ignored(SIGINT) == 0);
  CHECK(remembered_where_ignored(SIGHUP) == 0);
  for (const int number : {SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU}) CHECK(remembered_where_ignored(number) == number);
}
