// Sums over ranks by NCCL, on a stream of their own beside the computation (paper section 2.2: synchronous SGD).
#include <utility>

#include "mpi/nccl_communicator.hpp"

namespace mrmf::cuda {
namespace {

class NcclSums final : public AllReduce {
 public:
  explicit NcclSums(std::shared_ptr<NcclCommunicator> communicator)
      : communicator_(std::move(communicator)), wait_(communicator_->stream()) {}

  void sum(std::span<double> values) override {
    if (values.empty()) return;
    add(values.data(), values.size(), ncclDouble);
    wait_.end();
  }
  void start(Span part) override {
    if (!part.empty()) add(part.data(), part.size(), ncclFloat);
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
};

}  // namespace

std::unique_ptr<AllReduce> make_nccl_sums(std::shared_ptr<NcclCommunicator> communicator) {
  return std::make_unique<NcclSums>(std::move(communicator));
}

}  // namespace mrmf::cuda
