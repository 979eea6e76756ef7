#include "tests/emulated/nccl_collective.hpp"

#include <algorithm>
#include <cstring>

#include "tests/emulated/numbers.hpp"

namespace mrmf::emulated::nccl {
namespace {

/// The chunks of all ranks, element by element.
struct Sources {
  const Segment& segment;
  int ranks;
  template <class T>
  T at(int rank, std::size_t i) const {
    T value;
    std::memcpy(&value, segment.chunk(rank) + i * sizeof(T), sizeof value);
    return value;
  }
};

template <class T>
T apply(std::uint32_t op, T a, T b) {
  if (op == ncclSum) return static_cast<T>(a + b);
  return op == ncclMax ? std::max(a, b) : std::min(a, b);
}

template <class T>
void reduce(const Sources& sources, std::uint32_t op, std::size_t elements, char* to) {
  for (std::size_t i = 0; i < elements; ++i) {
    T value = sources.at<T>(0, i);
    for (int rank = 1; rank < sources.ranks; ++rank) value = apply(op, value, sources.at<T>(rank, i));
    std::memcpy(to + i * sizeof(T), &value, sizeof value);
  }
}

void reduce_bf16(const Sources& sources, std::uint32_t op, std::size_t elements, char* to) {
  for (std::size_t i = 0; i < elements; ++i) {
    float value = load(sources.segment.chunk(0), i, Element::bf16);
    for (int rank = 1; rank < sources.ranks; ++rank)
      value = apply(op, value, load(sources.segment.chunk(rank), i, Element::bf16));
    store(to, i, Element::bf16, static_cast<double>(value));
  }
}

void reduce(ncclDataType_t type, const Sources& sources, std::uint32_t op, std::size_t elements, char* to) {
  switch (type) {
    case ncclFloat32: return reduce<float>(sources, op, elements, to);
    case ncclFloat64: return reduce<double>(sources, op, elements, to);
    case ncclInt32: return reduce<std::int32_t>(sources, op, elements, to);
    case ncclInt64: return reduce<std::int64_t>(sources, op, elements, to);
    case ncclUint64: return reduce<std::uint64_t>(sources, op, elements, to);
    case ncclBfloat16: return reduce_bf16(sources, op, elements, to);
    default: return reduce<std::uint8_t>(sources, op, elements, to);
  }
}

std::string naming(const Call& call) {
  static const char* const names[] = {"AllReduce", "Broadcast", "AllGather"};
  return std::string(names[call.kind]) + " of " + std::to_string(call.count) + " elements of type " +
         std::to_string(call.type) + " (op " + std::to_string(call.op) + ", root " + std::to_string(call.root) + ")";
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclFloat32:
    case ncclInt32: return 4;
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64: return 8;
    default: return 0;
  }
}

Operation::Operation(std::shared_ptr<Communicator> communicator, const Call& call, const void* send, void* receive)
    : communicator_(std::move(communicator)),
      call_(call),
      send_(static_cast<const char*>(send)),
      receive_(static_cast<char*>(receive)),
      size_(bytes_of(static_cast<ncclDataType_t>(call.type))) {}

bool Operation::finish() {
  done_ = 0;
  published_ = false;
  if (communicator_->active == this) communicator_->active = nullptr;
  return true;
}

bool Operation::advance() {
  Communicator& c = *communicator_;
  if (const CallState turn = c.turn(this); turn != CallState::go) return turn == CallState::over && finish();
  while (done_ < call_.count)
    if (!advance_chunk()) return c.state() == ncclInvalidUsage ? finish() : false;
  return finish();
}

/// False, and an error where a peer has left, unless all peers have come that far.
bool Operation::all_peers(const std::function<bool(const Slot&)>& reached) {
  for (int rank = 0; rank < communicator_->identity().ranks; ++rank) {
    const Slot& slot = communicator_->peer(rank);
    const bool left = slot.presence == Presence::left;
    if (reached(slot)) continue;
    if (left)
      communicator_->fail(ncclRemoteError,
                          "rank " + std::to_string(rank) + " left before this rank's " + naming(call_));
    return false;
  }
  return true;
}

bool Operation::advance_chunk() {
  Communicator& c = *communicator_;
  const std::uint64_t step = c.step;
  const std::size_t elements = std::min(kChunk / size_, call_.count - done_);
  if (!published_) {
    if (!all_peers([&](const Slot& slot) { return slot.consumed >= step; })) return false;
    if (call_.kind != broadcast || call_.root == c.identity().rank)
      std::memcpy(c.segment().chunk(c.identity().rank), send_ + done_ * size_, elements * size_);
    c.own().call = call_;
    c.own().published = step + 1;
    published_ = true;
  }
  if (!all_peers([&](const Slot& slot) { return slot.published > step; })) return false;
  for (int rank = 0; rank < c.identity().ranks; ++rank)
    if (!(c.peer(rank).call == call_)) {
      mismatch(rank);
      return false;
    }
  combine(elements);
  c.own().consumed = c.step = step + 1;
  published_ = false;
  done_ += elements;
  return true;
}

void Operation::combine(std::size_t elements) {
  const Segment& segment = communicator_->segment();
  const int ranks = communicator_->identity().ranks;
  char* to = receive_ + done_ * size_;
  if (call_.kind == all_reduce) {
    reduce(static_cast<ncclDataType_t>(call_.type), {segment, ranks}, call_.op, elements, to);
  } else if (call_.kind == broadcast) {
    std::memcpy(to, segment.chunk(call_.root), elements * size_);
  } else {
    for (int rank = 0; rank < ranks; ++rank)
      std::memcpy(to + static_cast<std::size_t>(rank) * call_.count * size_, segment.chunk(rank), elements * size_);
  }
}

void Operation::mismatch(int rank) {
  communicator_->fail(ncclInvalidUsage, "ranks call different collectives: rank " +
                                            std::to_string(communicator_->identity().rank) + " " + naming(call_) +
                                            ", rank " + std::to_string(rank) + " " +
                                            naming(communicator_->peer(rank).call));
  std::memset(receive_, 0xff, call_.count * size_);
}

}  // namespace mrmf::emulated::nccl
