#pragma once
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated/nccl_segment.hpp"

namespace mrmf::emulated::nccl {

/// What identifies a rank to its peers.
struct Identity {
  std::string name;  // of the shared memory
  int ranks, rank, device;
  bool blocking;
};

/// What a collective or a group of messages in a stream does next: it works, waits, or is over without a result.
enum class CallState { go, wait, over };

/// One rank of a communicator. A thread of its own brings up the connection, looks after the peers' lives, and moves
/// the device's work on where peers wait for it: a collective continues without the host, as on a device.
class Communicator {
 public:
  explicit Communicator(Identity identity);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Identity& identity() const { return identity_; }
  Segment& segment() { return segment_; }
  Slot& own() const { return segment_.slot(identity_.rank); }
  Slot& peer(int rank) const { return segment_.slot(rank); }

  ncclResult_t state() const { return state_; }
  bool aborted() const { return aborted_; }
  void wait_until_ready();
  /// The first error stays; `text` goes to ncclGetLastError.
  void fail(ncclResult_t error, const std::string& text);
  /// state(), and carries out what waited for the caller to ask (see defer).
  ncclResult_t poll();
  /// A non-blocking communicator's first collective comes into its stream only after the caller has polled, as the
  /// real one's may: an event recorded before that misses it. The same with its first messages.
  void defer(std::function<void()> launch, bool messages);
  bool must_defer(bool messages) const { return !identity_.blocking && !(messages ? talked_ : connected_); }
  bool has_deferred();

  void finalize();  ///< waits for the device's work, then leaves
  void abort();

  /// Whether a call in a stream may work now. It then is the one under way. Under the machine's lock.
  CallState turn(const void* call);
  /// Used by collectives and messages, under the machine's lock: which one is under way, and collective chunks done so
  /// far.
  const void* active = nullptr;
  std::uint64_t step = 0;
  std::uint64_t splits = 0;

 private:
  void watch(const std::stop_token& stop);
  void connect();
  bool duplicates();
  void check_peers();
  std::string lost_peer() const;  ///< what became of a peer that is gone; empty: all are there
  bool is_awaited() const;
  void stop();

  Identity identity_;
  Segment segment_;
  std::atomic<ncclResult_t> state_ = ncclInProgress;
  std::atomic<bool> aborted_ = false, connected_ = false, talked_ = false;
  std::mutex mutex_;  // of what follows
  std::vector<std::function<void()>> deferred_;
  int polls_ = 0;
  std::jthread thread_;
};

/// Last warning of the process, as ncclGetLastError gives it.
const char* last_warning();
void warn(const std::string& text);

}  // namespace mrmf::emulated::nccl
