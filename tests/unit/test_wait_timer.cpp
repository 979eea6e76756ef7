// Which time of a wait counts, and which processes of a node are stopped.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "kernels/timer.hpp"
#include "mpi/wait.hpp"

using namespace mrmf;

namespace {

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// A process that waits for signals, and how it is found.
class Child {
 public:
  Child() : id_(fork()) {
    if (id_ == 0)
      for (;;) pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  mpi::ProcessName name() const { return mpi::ProcessName::of(id_); }
  void stop() const { change(SIGSTOP, WUNTRACED); }
  void resume() const { change(SIGCONT, WCONTINUED); }
  void end() {
    if (id_ > 0) change(SIGKILL, 0);
    id_ = 0;
  }

 private:
  void change(int signal, int until) const {  // returns when it has
    int status = 0;
    kill(id_, signal);
    waitpid(id_, &status, until);
  }
  pid_t id_;
};

}  // namespace

TEST_CASE("wait timer: a wait is over after its limit, and never without one") {
  const WaitLimit limit{0.05}, none;
  WaitTimer wait(limit), endless(none);
  const Timer timer;
  while (!wait.over()) {
    wait.update();
    endless.update();
  }
  CHECK(timer.seconds() >= 0.05);
  CHECK(wait.counted() > 0.05);
  CHECK_FALSE(endless.over());
}

TEST_CASE("wait timer: while the process itself does not run, no time passes") {
  const WaitLimit limit{0.25};
  WaitTimer wait(limit);
  for (int i = 0; i < 2; ++i) {
    sleep_seconds(0.4);  // as if it had been stopped
    wait.update();
    CHECK(wait.counted() <= (i + 1) * WaitTimer::kMostBetweenUpdates);
    CHECK_FALSE(wait.over());
  }
}

TEST_CASE("wait timer: while another is stopped, no time passes, and the limit counts on when it continues") {
  int asked = 0, late = 0;
  bool stopped = true;
  const WaitLimit limit{0.05, [&](bool is_late) {
                          ++asked;
                          late += is_late ? 1 : 0;
                          return stopped;
                        }};
  WaitTimer wait(limit);
  const Timer timer;
  while (late < 3) {
    wait.update();
    CHECK_FALSE(wait.over());
  }
  CHECK(timer.seconds() > 0.05);
  CHECK(asked < 1000 * timer.seconds());  // it costs a look at every process of the node
  stopped = false;
  while (!wait.over()) wait.update();
  CHECK(wait.counted() > 0.05);
}

TEST_CASE("node processes: a process that is stopped, continues, ends, and another of its number") {
  Child one, two;
  const mpi::ProcessName own = mpi::ProcessName::own();
  CHECK(own.node != 0);
  CHECK(own.process == getpid());
  mpi::ProcessName elsewhere = two.name();
  elsewhere.node += 1;
  mpi::ProcessName earlier = two.name();
  earlier.started -= 1;
  const std::vector<mpi::ProcessName> all{one.name(), own, elsewhere, earlier, two.name()};
  const mpi::NodeProcesses node(all, 1);
  CHECK(node.count() == 3);
  CHECK_FALSE(node.stopped());
  two.stop();
  CHECK(node.stopped() == 4);
  CHECK(node.any_stopped(false));
  one.stop();
  CHECK(node.stopped() == 0);
  one.resume();
  CHECK(node.stopped() == 4);
  two.end();
  CHECK_FALSE(node.stopped());
  CHECK(mpi::NodeProcesses(std::vector{own, mpi::ProcessName{}}, 0).count() == 0);
  CHECK(mpi::NodeProcesses(std::vector{mpi::ProcessName{}, mpi::ProcessName{}}, 0).count() == 0);  // not known
}
