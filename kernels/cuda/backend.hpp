// The CUDA backend: cuDNN's convolutions, cuBLASLt's dense layers, own kernels for the rest, all queued on one stream.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device_and_step.hpp"

namespace mrmf::cuda {

/// What connects this device with those of other ranks: sums and messages in device memory. Both calls are collective
/// over the peers, all ranks make theirs in one order, and what they return must not outlive this. FaultError when the
/// ranks cannot be connected.
class Connections {
 public:
  virtual ~Connections() = default;
  virtual std::unique_ptr<AllReduce> all_reduce(const Peers& peers) = 0;
  virtual std::unique_ptr<Messages> messages(const Peers& peers) = 0;
};
/// By NCCL (mpi/nccl_communicator.cpp).
std::unique_ptr<Connections> make_nccl_connections(Device& device);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Settings& settings) : device_(settings) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override { return device_.description(); }

  Arena allocate(Index count) override;
  void require_memory(Index floats, const std::string& what) override;
  void write(ConstSpan host, Span x) override;
  void read(ConstSpan x, Span host) override;
  Shape stored(const Shape& shape) const override { return device_.storage().stored(shape); }
  Index activation_floats(const Shape& shape) const override { return device_.storage().floats(shape); }
  void write_activation(ConstSpan host, Tensor x) override;
  void read_activation(ConstTensor x, Span host) override;
  std::unique_ptr<Feed> feed(const Shape& samples, Index outputs) override;
  std::unique_ptr<Feed> averaging_feed(const Shape& fine, Index outputs, const Extent& factors) override;
  std::unique_ptr<SampleTable> table(const SampleTable::Settings& settings) override;

  void begin(const StepContext& step) override;
  void run_captured(std::uint64_t key, const std::function<void()>& calls) override {
    device_.step_graphs().run(key, calls);
  }
  void drop_captures() override { device_.step_graphs().drop_captures(); }
  void finish() override { device_.synchronise(); }
  bool synchronous() const override { return false; }
  std::unique_ptr<AllReduce> all_reduce(const Peers& peers) override { return connections().all_reduce(peers); }
  std::unique_ptr<Messages> messages(const Peers& peers) override { return connections().messages(peers); }

  MRMF_BACKEND_OPERATIONS(MRMF_OVERRIDE_OPERATION)
  void reshape(ConstTensor x, Tensor y) override;
  void add_over(AllReduce& ranks, Tensor x, Span floats) override;
  void append_history(const StepContext& step, ConstSpan value, Span history) override;

 private:
  /// What steps of so many rows need: nothing may move once steps are captured.
  void prepare_steps(Index rows);
  /// Waits: the host's memory may be gone when the caller continues.
  void copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind);

  Connections& connections() {
    if (!connections_) connections_ = make_nccl_connections(device_);
    return *connections_;
  }

  Device device_;
  std::unique_ptr<Connections> connections_;  // null: none was asked for
};

/// Null where it would take too much of the memory that is left.
std::unique_ptr<SampleTable> make_table(Device& device, const SampleTable::Settings& settings);
/// For batches of at most samples.n; each block of factors' neighbours is averaged on the device.
std::unique_ptr<Feed> make_feed(Device& device, const Shape& samples, Index outputs, const Extent& factors);

}  // namespace mrmf::cuda
