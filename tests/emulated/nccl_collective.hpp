#pragma once
#include <memory>

#include "tests/emulated/nccl_communicator.hpp"

namespace mrmf::emulated::nccl {

enum Collective : std::uint32_t { all_reduce, broadcast, all_gather };

/// Bytes of one element; 0 for types that are not emulated.
std::size_t bytes_of(ncclDataType_t type);

/// One collective in a stream (or a captured one, which runs many times). Each chunk is published, then read from all
/// ranks and combined in the order of the ranks.
class Operation {
 public:
  Operation(std::shared_ptr<Communicator> communicator, const Call& call, const void* send, void* receive);
  bool advance();  ///< false: waits for a peer

 private:
  bool advance_chunk();
  bool all_peers(const std::function<bool(const Slot&)>& reached);
  void combine(std::size_t elements);
  void mismatch(int rank);
  bool finish();

  std::shared_ptr<Communicator> communicator_;
  Call call_;
  const char* send_;
  char* receive_;
  std::size_t size_, done_ = 0;  // bytes of an element; elements done
  bool published_ = false;
};

}  // namespace mrmf::emulated::nccl
