#include "mpi/nccl_coded_sums.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace mrmf::cuda {
NcclCodedSums::NcclCodedSums(std::shared_ptr<NcclCommunicator> communicator, int rank, int ranks)
    : communicator_(std::move(communicator)), rank_(rank), ranks_(ranks) {}

NcclCodedSums::~NcclCodedSums() {
  communicator_->stream().device().step_graphs().drop_captures();
}  // captures hold the memory

NcclCodedSums::Memory::Memory(const CodedPart& part, const CodeLayout& layout, cudaStream_t stream)
    : code(part.code),
      count(part.values.size()),
      of(part.tensors.begin(), part.tensors.end()),
      sent(static_cast<std::size_t>(layout.ranks) * layout.code_bytes()),
      gathered(static_cast<std::size_t>(layout.ranks) * layout.code_bytes()),
      results(static_cast<std::size_t>(layout.ranks) * layout.result_bytes()),
      tensors(part.tensors.size_bytes()),
      factors(part.tensors.size() * sizeof(float)),
      partials(factor_partials(part) * sizeof(double)) {
  if (part.tensors.empty()) return;
  MRMF_CUDA(cudaMemcpyAsync(tensors.get(), part.tensors.data(), tensors.bytes(), cudaMemcpyHostToDevice, stream));
  MRMF_CUDA(cudaStreamSynchronize(stream));
}

// Another model may begin where a former one did.
bool NcclCodedSums::Memory::fits(const CodedPart& part) const {
  return part.code == code && part.values.size() == count && std::ranges::equal(part.tensors, of);
}

CodeBuffers NcclCodedSums::Memory::buffers() const {
  return {sent.get<std::byte>(),      gathered.get<std::byte>(), results.get<std::byte>(),
          tensors.get<CodedTensor>(), factors.get<float>(),      partials.get<double>()};
}

NcclCodedSums::Memory& NcclCodedSums::memory_of(const CodedPart& part, const CodeLayout& layout) {
  std::unique_ptr<Memory>& memory = memory_[part.values.data()];
  if (memory && memory->fits(part)) return *memory;
  const Device& device = communicator_->stream().device();
  if (memory) device.synchronise();  // it may still be in use
  memory = std::make_unique<Memory>(part, layout, device.copy_stream());
  return *memory;
}

double NcclCodedSums::start(const CodedPart& part) {
  const CodeLayout layout = CodeLayout::of(part, ranks_, rank_);
  const CodeBuffers buffers = memory_of(part, layout).buffers();
  const Device& device = communicator_->stream().device();
  const cudaStream_t beside = communicator_->stream().get();
  make_codes(device.stream(), layout, part, buffers);
  send_codes(layout, buffers);
  add_codes(beside, layout, part, buffers, device.step());
  send_results(layout, buffers);
  read_sums(beside, layout, part, buffers);
  double sent = 0;
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    if (!layout.empty(r)) sent += static_cast<double>(layout.code_bytes());
    if (!layout.empty(rank_)) sent += static_cast<double>(layout.result_bytes());
  }
  return sent;
}

void NcclCodedSums::exchange(std::size_t bytes, const std::function<Exchanged(int)>& with) {
  communicator_->queue("a coded sum over the ranks", [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_group([&](const NcclAdd& add) {
      for (int r = 0; r < ranks_; ++r) {
        if (r == rank_) continue;
        const Exchanged moved = with(r);
        if (moved.received != nullptr) add(ncclRecv(moved.received, bytes, ncclUint8, r, comm, stream));
        if (moved.sent != nullptr) add(ncclSend(moved.sent, bytes, ncclUint8, r, comm, stream));
      }
    });
  });
}

void NcclCodedSums::send_codes(const CodeLayout& layout, const CodeBuffers& buffers) {
  const std::size_t bytes = layout.code_bytes();
  exchange(bytes, [&](int r) {
    const std::size_t at = static_cast<std::size_t>(r) * bytes;
    return Exchanged{layout.empty(rank_) ? nullptr : buffers.gathered + at,
                     layout.empty(r) ? nullptr : buffers.sent + at};
  });
}

void NcclCodedSums::send_results(const CodeLayout& layout, const CodeBuffers& buffers) {
  const std::size_t bytes = layout.result_bytes();
  exchange(bytes, [&](int r) {
    return Exchanged{layout.empty(r) ? nullptr : buffers.results + static_cast<std::size_t>(r) * bytes,
                     layout.empty(rank_) ? nullptr : buffers.results + static_cast<std::size_t>(rank_) * bytes};
  });
}

}  // namespace mrmf::cuda
