#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mrmf::emulated::nccl {

inline constexpr int kMaxRanks = 32;
inline constexpr std::size_t kChunk = 256 << 10;        // bytes that one rank publishes at a time
inline constexpr std::size_t kMessageChunk = 64 << 10;  // and sends to one other

/// What a rank asks for; must be the same on all ranks.
struct Call {
  std::uint32_t kind, type, op;
  std::int32_t root;
  std::uint64_t count;
  bool operator==(const Call&) const = default;
};

enum class Presence : int { here, left, aborted };

/// A rank's corner of the shared memory; only that rank writes to it. All zero bytes is the state before it came.
struct Slot {
  std::atomic<int> claimed, pid;  // pid is set when the fields up to `host` are valid
  int ranks, device;
  char bus[16];
  std::uint64_t host;
  std::atomic<Presence> presence;
  Call call;                                       // of the chunk published last
  std::atomic<std::uint64_t> published, consumed;  // chunks so far
  std::atomic<std::uint64_t> split_published, split_read;
  int color, key;
};

/// Messages from one rank to another: how many chunks there have been. The sender writes `bytes` and `sent`, the
/// receiver the others.
struct Pair {
  std::uint64_t bytes;  // of the message of the chunk sent last
  std::atomic<std::uint64_t> sent, wanted, received;
};

/// Shared memory of a communicator, named after its unique id: slots, one chunk per rank, then a Pair and a chunk for
/// every two ranks. The first rank to come
/// makes it; it vanishes from the file system when all ranks have it.
class Segment {
 public:
  Segment(const std::string& name, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Slot& slot(int rank) const { return static_cast<Slot*>(memory_)[rank]; }
  char* chunk(int rank) const;
  Pair& pair(int from, int to) const;
  char* chunk(int from, int to) const;
  void unlink();

 private:
  std::size_t number(int from, int to) const;

  std::string name_;
  std::size_t ranks_, bytes_;
  void* memory_;
};

/// Has the process ended (zombies count as ended)?
bool is_dead(int pid);

}  // namespace mrmf::emulated::nccl
