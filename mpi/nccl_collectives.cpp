// Sums over ranks, as floats or as codes, and messages between the ranks that share a sample, by NCCL.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/sum_codes.hpp"
#include "mpi/nccl_communicator.hpp"

namespace mrmf::cuda {

// Sums over ranks by NCCL whose values travel as codes. Private to mpi/nccl_*.

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

// Sums over ranks and messages between the ranks that share a sample, by NCCL. All messages of a call are one group.

namespace {

class NcclMessages final : public Messages {
 public:
  NcclMessages(std::shared_ptr<NcclCommunicator> communicator, int rank)
      : communicator_(std::move(communicator)), rank_(rank), wait_(communicator_->stream()) {}

  int rank() const override { return rank_; }

  void start(std::span<const Message> sent, std::span<const Message> received) override {
    if (sent.empty() && received.empty()) return;
    communicator_->queue("a message between the ranks of a grid", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl_group([&](const NcclAdd& add) {
        for (const Message& m : received)
          add(ncclRecv(m.values.data(), m.values.size(), ncclFloat, m.rank, comm, stream));
        for (const Message& m : sent) add(ncclSend(m.values.data(), m.values.size(), ncclFloat, m.rank, comm, stream));
      });
    });
    wait_.begin();
  }
  void finish() override { wait_.end(); }
  SumTime take_time() override { return wait_.take_time(); }

 private:
  std::shared_ptr<NcclCommunicator> communicator_;
  int rank_;
  NcclWait wait_;
};

}  // namespace

std::unique_ptr<Messages> make_nccl_messages(std::shared_ptr<NcclCommunicator> communicator, int rank) {
  return std::make_unique<NcclMessages>(std::move(communicator), rank);
}

// Sums over ranks by NCCL, on a stream of their own beside the computation (paper section 2.2: synchronous SGD).

namespace {

class NcclSums final : public CodedAllReduce {
 public:
  NcclSums(std::shared_ptr<NcclCommunicator> communicator, int rank, int ranks)
      : communicator_(std::move(communicator)), wait_(communicator_->stream()), coded_(communicator_, rank, ranks) {}

  void sum(std::span<double> values) override {
    if (values.empty()) return;
    add(values.data(), values.size(), ncclDouble);
    wait_.end();
  }
  void start(Span part) override {
    if (!part.empty()) add(part.data(), part.size(), ncclFloat);
  }
  double start_coded(const CodedPart& part) override {
    if (part.values.empty()) return 0;
    const double sent = coded_.start(part);
    wait_.begin();
    return sent;
  }
  void finish() override { wait_.end(); }
  SumTime take_time() override { return wait_.take_time(); }

 private:
  void add(void* values, std::size_t count, ncclDataType_t type) {
    communicator_->queue("a sum over the ranks", [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(values, values, count, type, ncclSum, comm, stream);
    });
    wait_.begin();
  }

  std::shared_ptr<NcclCommunicator> communicator_;
  NcclWait wait_;
  NcclCodedSums coded_;
};

}  // namespace

std::unique_ptr<AllReduce> make_nccl_sums(std::shared_ptr<NcclCommunicator> communicator, int rank, int ranks) {
  return std::make_unique<NcclSums>(std::move(communicator), rank, ranks);
}

}  // namespace mrmf::cuda
