#include "tests/emulated/nccl_messages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mrmf::emulated::nccl {

Messages::Messages(std::shared_ptr<Communicator> communicator, std::vector<Transfer> transfers)
    : communicator_(std::move(communicator)), transfers_(std::move(transfers)) {}

bool Messages::finish() {
  for (Transfer& transfer : transfers_) transfer.done = 0;
  if (communicator_->active == this) communicator_->active = nullptr;
  return true;
}

bool Messages::advance() {
  Communicator& c = *communicator_;
  if (const CallState turn = c.turn(this); turn != CallState::go) return turn == CallState::over && finish();
  bool done = true;
  for (Transfer& transfer : transfers_) done = advance(transfer) && done;
  if (c.state() == ncclInvalidUsage) return finish();
  return done && finish();
}

/// True when the message is through, as far as this rank goes.
bool Messages::advance(Transfer& transfer) {
  Communicator& c = *communicator_;
  const int own = c.identity().rank;
  const int from = transfer.sends ? own : transfer.peer, to = transfer.sends ? transfer.peer : own;
  Pair& pair = c.segment().pair(from, to);
  while (transfer.done < transfer.bytes) {
    const std::size_t bytes = std::min(kMessageChunk, transfer.bytes - transfer.done);
    if (!transfer.sends) pair.wanted = pair.received + 1;
    const bool waits = transfer.sends ? pair.received < pair.sent : pair.sent <= pair.received;
    if (waits) {
      if (c.peer(transfer.peer).presence == Presence::left)
        c.fail(ncclRemoteError, "rank " + std::to_string(transfer.peer) + " left before its message was through");
      return false;
    }
    if (transfer.sends) {
      std::memcpy(c.segment().chunk(from, to), transfer.data + transfer.done, bytes);
      pair.bytes = transfer.bytes;
      ++pair.sent;
    } else if (pair.bytes != transfer.bytes) {
      mismatch(transfer, pair.bytes);
      return false;
    } else {
      std::memcpy(transfer.data + transfer.done, c.segment().chunk(from, to), bytes);
      ++pair.received;
    }
    transfer.done += bytes;
  }
  return true;
}

void Messages::mismatch(const Transfer& transfer, std::uint64_t bytes) {
  communicator_->fail(ncclInvalidUsage, "rank " + std::to_string(communicator_->identity().rank) + " expects " +
                                            std::to_string(transfer.bytes) + " bytes from rank " +
                                            std::to_string(transfer.peer) + ", which sent " + std::to_string(bytes));
  std::memset(transfer.data, 0xff, transfer.bytes);
}

}  // namespace mrmf::emulated::nccl
