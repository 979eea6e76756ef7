// Sums over ranks and messages between the ranks that share a sample, by NCCL. All messages of a call are one group.
#include <utility>

#include "mpi/nccl_coded_sums.hpp"
#include "mpi/nccl_communicator.hpp"

namespace mrmf::cuda {
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
