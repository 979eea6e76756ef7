#include "mpi/wait.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "mpi/comm.hpp"
#include "mpi/cores.hpp"
#include "mpi/environment.hpp"

namespace mrmf::mpi {
namespace {

struct ProcessState {
  char state = 'X';  // as `ps` shows it
  std::int64_t started = 0;
};

// The name of a program, in brackets, may hold anything. What follows it are fields with blanks between them: the state
// is the 3rd of all, the start the 22nd.
std::optional<ProcessState> state_of(std::int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState found;
  std::string skipped;
  fields >> found.state;
  for (int i = 4; i < 22; ++i) fields >> skipped;
  if (!(fields >> found.started)) return {};
  return found;
}

// Containers on one machine have the same start of the kernel, and process numbers of their own.
std::int64_t node_number() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> numbers{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", numbers.data(), numbers.size());
  if (boot.empty() || length <= 0) return 0;
  return static_cast<std::int64_t>(
      std::hash<std::string>{}(boot + std::string(numbers.data(), static_cast<std::size_t>(length))));
}

bool is_stopped(const ProcessName& name) {
  const std::optional<ProcessState> now = state_of(name.process);
  return now && now->started == name.started && (now->state == 'T' || now->state == 't');
}

}  // namespace

ProcessName ProcessName::of(pid_t process) {
  const std::optional<ProcessState> state = state_of(process);
  if (!state) return {};
  return {node_number(), process, state->started};
}

NodeProcesses::NodeProcesses(std::span<const ProcessName> all, int own_rank) : own_rank_(own_rank) {
  const ProcessName& own = all[static_cast<std::size_t>(own_rank)];
  for (std::size_t r = 0; r < all.size(); ++r)
    if (static_cast<int>(r) != own_rank && own.node != 0 && all[r].node == own.node)
      others_.push_back({static_cast<int>(r), all[r]});
}

std::optional<int> NodeProcesses::stopped() const {
  const auto found = std::ranges::find_if(others_, [](const Process& other) { return is_stopped(other.name); });
  if (found == others_.end()) return {};
  return found->rank;
}

bool NodeProcesses::any_stopped(bool too_long) const {
  const std::optional<int> rank = stopped();
  if (rank && too_long) tell(*rank);
  return rank.has_value();
}

// The lowest rank of the node that is not stopped itself.
void NodeProcesses::tell(int stopped) const {
  constexpr std::int64_t kAgain = 60;  // seconds
  const bool lowest = std::ranges::all_of(
      others_, [&](const Process& other) { return other.rank > own_rank_ || is_stopped(other.name); });
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (!lowest || (told_ != 0 && now - told_ < kAgain)) return;
  told_ = std::max<std::int64_t>(now, 1);
  const auto process = std::ranges::find(others_, stopped, &Process::rank);
  fmt::print(stderr, "mrmf: rank {} (process {}) is stopped; the others wait until it continues (kill -CONT {})\n",
             stopped, process->name.process, process->name.process);
}

namespace {

// One for the process, as MPI's progress is: any call of MPI may touch the memory of any other.
std::atomic<bool> abandoned{false};

}  // namespace

void check(int code, const char* function, const char* caller, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw FaultError(std::string(function) + " failed on rank " + std::to_string(MpiEnvironment::rank()) + ": " + text +
                   " (" + caller + ", line " + std::to_string(line) + ")");
}

FaultError overdue(const char* function, double seconds) {
  return FaultError(
      fmt::format("rank {}: a call of the ranks together ({}) has not ended within {} s; another rank hangs or has "
                  "died (run.timeout sets the limit)",
                  MpiEnvironment::rank(), function, seconds));
}

// After a long wait, yields the core: the rank that it waits for may need it.
void wait_until(const std::function<bool()>& done, const char* function, const WaitLimit& limit) {
  constexpr double kLong = 0.1;  // seconds
  WaitTimer timer(limit);
  while (!done()) {
    timer.update();
    if (timer.counted() > kLong) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (timer.over()) throw overdue(function, limit.seconds);
  }
}

bool abandoned_calls() { return abandoned; }
void abandon_calls() { abandoned = true; }

Request::Request(Request&& other) noexcept
    : function_(other.function_), request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}

bool Request::test() {
  int done = 0;
  check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), function_);
  return done != 0;
}

namespace {

void watch(const std::stop_token& done, const WaitLimit& limit, const char* function) {
  constexpr std::chrono::milliseconds kBetweenUpdates(50);
  leave_place();
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  // wait_for's result does not help: it may be false for a stop that came as the wait began, whatever the condition
  // says.
  for (WaitTimer timer(limit); !done.stop_requested(); timer.update()) {
    if (timer.over()) throw overdue(function, limit.seconds);
    wake.wait_for(lock, done, kBetweenUpdates, [] { return false; });
  }
}

}  // namespace

Deadline::Deadline(WaitLimit limit, const char* function) {
  if (limit.seconds <= 0) return;
  watcher_ =
      std::jthread([limit = std::move(limit), function](const std::stop_token& done) { watch(done, limit, function); });
}

}  // namespace mrmf::mpi
