#include "tests/emulated/nccl_communicator.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

namespace mrmf::emulated::nccl {
namespace {

using namespace std::chrono_literals;
constexpr auto kTick = 2ms;
constexpr int kPatience = 10;  // ticks that a peer waits before this rank's device work is moved on

/// As NCCL's: NCCL_HOSTID stands in for the host's name.
std::uint64_t host_hash() {
  const char* given = std::getenv("NCCL_HOSTID");
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return std::hash<std::string>{}(given && *given ? given : name);
}

std::mutex& warning_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string& warning() {
  static auto* text = new std::string;
  return *text;
}

}  // namespace

void warn(const std::string& text) {
  const std::scoped_lock lock(warning_mutex());
  warning() = text;
  report("NCCL", text);
}

const char* last_warning() {
  thread_local std::string copy;
  const std::scoped_lock lock(warning_mutex());
  copy = warning();
  return copy.c_str();
}

Communicator::Communicator(Identity identity)
    : identity_(std::move(identity)), segment_(identity_.name, identity_.ranks) {
  Slot& slot = own();
  int free = 0;
  if (!slot.claimed.compare_exchange_strong(free, 1)) {
    fail(ncclInvalidUsage, "rank " + std::to_string(identity_.rank) + " is taken by another caller");
    return;
  }
  slot.ranks = identity_.ranks;
  slot.device = identity_.device;
  std::snprintf(slot.bus, sizeof slot.bus, "%d", identity_.device);
  slot.host = host_hash();
  slot.pid = static_cast<int>(getpid());
  thread_ = std::jthread([this](const std::stop_token& token) { watch(token); });
}

Communicator::~Communicator() { stop(); }

void Communicator::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Communicator::fail(ncclResult_t error, const std::string& text) {
  const ncclResult_t before = state_;
  if (before != ncclSuccess && before != ncclInProgress) return;
  warn(text);
  state_ = error;
}

void Communicator::wait_until_ready() {
  while (state_ == ncclInProgress) std::this_thread::sleep_for(200us);
}

bool Communicator::duplicates() {
  for (int a = 0; a < identity_.ranks; ++a)
    for (int b = a + 1; b < identity_.ranks; ++b)
      if (peer(a).host == peer(b).host && std::strcmp(peer(a).bus, peer(b).bus) == 0) {
        fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " + std::to_string(b) +
                                   " both on CUDA device " + std::to_string(peer(a).device));
        return true;
      }
  return false;
}

void Communicator::connect() {
  for (int rank = 0; rank < identity_.ranks; ++rank) {
    if (peer(rank).pid == 0) return;
    if (peer(rank).ranks != identity_.ranks)
      return fail(ncclInvalidArgument, "ranks disagree about their number: " + std::to_string(identity_.ranks) +
                                           " and " + std::to_string(peer(rank).ranks));
  }
  segment_.unlink();
  if (!duplicates()) state_ = ncclSuccess;
}

std::string Communicator::lost_peer() const {
  for (int rank = 0; rank < identity_.ranks; ++rank) {
    const Slot& slot = peer(rank);
    if (rank == identity_.rank || slot.pid == 0) continue;
    if (slot.presence == Presence::aborted) return "rank " + std::to_string(rank) + " has aborted the communicator";
    if (slot.presence == Presence::here && is_dead(slot.pid))
      return "the process of rank " + std::to_string(rank) + " has ended";
  }
  return "";
}

void Communicator::check_peers() {
  const std::string lost = lost_peer();
  if (lost.empty()) return;
  if (state_ == ncclInProgress) {
    connect();  // it may have ended after it was the last to come; the next look finds it gone
    if (state_ != ncclInProgress) return;
  }
  fail(ncclRemoteError, lost);
}

/// Has a peer got ahead of this rank, so that it may be waiting for it?
bool Communicator::is_awaited() const {
  for (int rank = 0; rank < identity_.ranks; ++rank)
    if (peer(rank).published > own().published || peer(rank).consumed > own().consumed) return true;
  for (int rank = 0; rank < identity_.ranks; ++rank) {
    const Pair &there = segment_.pair(identity_.rank, rank), &here = segment_.pair(rank, identity_.rank);
    if (there.wanted > there.sent || here.sent > here.received) return true;
  }
  return false;
}

void Communicator::watch(const std::stop_token& token) {
  int awaited = 0;
  while (!token.stop_requested()) {
    if (state_ == ncclInProgress) connect();
    check_peers();
    awaited = state_ == ncclSuccess && is_awaited() ? awaited + 1 : 0;
    if (awaited > kPatience) {
      Machine& machine = Machine::get();
      const Machine::Lock lock(machine.mutex);
      machine.advance_all(identity_.device);
    }
    std::this_thread::sleep_for(state_ == ncclInProgress ? 200us : std::chrono::microseconds(kTick));
  }
}

ncclResult_t Communicator::poll() {
  const std::scoped_lock lock(mutex_);
  if (state_ != ncclSuccess || deferred_.empty()) return state_;
  if (++polls_ < 2) return ncclInProgress;
  for (const auto& launch : deferred_) launch();
  deferred_.clear();
  polls_ = 0;
  return ncclSuccess;
}

void Communicator::defer(std::function<void()> launch, bool messages) {
  const std::scoped_lock lock(mutex_);
  deferred_.push_back(std::move(launch));
  (messages ? talked_ : connected_) = true;
}

bool Communicator::has_deferred() {
  const std::scoped_lock lock(mutex_);
  return !deferred_.empty();
}

void Communicator::finalize() {
  wait_until_ready();
  if (state_ == ncclSuccess) {
    Machine& machine = Machine::get();
    Machine::Lock lock(machine.mutex);
    Machine::wait_until(lock, [&] { return machine.advance_all(identity_.device) || state_ != ncclSuccess; });
  }
  if (own().presence == Presence::here) own().presence = Presence::left;
}

CallState Communicator::turn(const void* call) {
  if (aborted()) return stuck_collectives() ? CallState::wait : CallState::over;
  if (state() == ncclInvalidUsage) return CallState::over;  // ranks called different things: the result is void
  if (state() != ncclSuccess) return CallState::wait;       // a peer is gone: the kernel waits until the abort
  if (active && active != call) return CallState::wait;
  active = call;
  return CallState::go;
}

void Communicator::abort() {
  aborted_ = true;
  own().presence = Presence::aborted;
  fail(ncclInternalError, "the communicator was aborted");
  stop();
}

}  // namespace mrmf::emulated::nccl
