#pragma once
#include <memory>
#include <vector>

#include "tests/emulated/nccl_communicator.hpp"

namespace mrmf::emulated::nccl {

/// One ncclSend or ncclRecv.
struct Transfer {
  bool sends;
  int peer;
  char* data;
  std::size_t bytes;
  std::size_t done = 0;
};

/// The messages of one group in a stream (or of a captured one, which runs many times). All continue side by side, a
/// chunk at a time: a rank that sends does not wait until it has received, nor the other way round.
class Messages {
 public:
  Messages(std::shared_ptr<Communicator> communicator, std::vector<Transfer> transfers);
  bool advance();  ///< false: waits for a peer

 private:
  bool advance(Transfer& transfer);
  bool finish();
  void mismatch(const Transfer& transfer, std::uint64_t bytes);

  std::shared_ptr<Communicator> communicator_;
  std::vector<Transfer> transfers_;
};

}  // namespace mrmf::emulated::nccl
