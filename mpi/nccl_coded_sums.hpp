// Sums over ranks by NCCL whose values travel as codes. Private to mpi/nccl_*.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cuda/sum_codes.hpp"
#include "mpi/nccl_communicator.hpp"

namespace mrmf::cuda {

/// Pieces of codes go to the ranks that add them, and their sums to all, as grouped messages of bytes: nothing is added
/// packed. Codes are made on the computing stream, and added and read on NCCL's, beside computation.
class NcclCodedSums {
 public:
  NcclCodedSums(std::shared_ptr<NcclCommunicator> communicator, int rank, int ranks);
  ~NcclCodedSums();
  NcclCodedSums(const NcclCodedSums&) = delete;
  NcclCodedSums& operator=(const NcclCodedSums&) = delete;

  /// Queues the sum of a part; returns the bytes that this rank sends. A part's first sum takes its memory, so it must
  /// not be captured.
  double start(const CodedPart& part);

 private:
  struct Memory {
    Memory(const CodedPart& part, const CodeLayout& layout, cudaStream_t stream);
    bool fits(const CodedPart& part) const;
    CodeBuffers buffers() const;
    CodeFormat code;
    std::size_t count;
    std::vector<CodedTensor> of;
    DeviceBuffer sent, gathered, results, tensors, factors, partials;
  };
  Memory& memory_of(const CodedPart& part, const CodeLayout& layout);
  /// What goes between this rank and another; null: nothing.
  struct Exchanged {
    std::byte* received;
    const std::byte* sent;
  };
  /// So many bytes each way with every other rank, as one group.
  void exchange(std::size_t bytes, const std::function<Exchanged(int)>& with);
  void send_codes(const CodeLayout& layout, const CodeBuffers& buffers);
  void send_results(const CodeLayout& layout, const CodeBuffers& buffers);

  std::shared_ptr<NcclCommunicator> communicator_;
  int rank_, ranks_;
  std::map<const float*, std::unique_ptr<Memory>> memory_;  // by the part's first value
};

}  // namespace mrmf::cuda
