// What a backend provides: memory, steps, and the operations of kernels/operations.hpp.
//
// Implemented by kernels/reference (naive loops, double accumulation: the oracle of every test), kernels/cpu (the
// CPU default) and kernels/cuda, chosen at run time. Layers call these and nothing else.
//
// Conventions, for every function here:
//   * layout is channels-last: samples and activations (n, spatial..., c), filters (out, spatial..., in),
//     dense weights (out, in); float32.
//   * an operation is built for one geometry and a largest number of rows; a call may bring fewer rows (x.shape.n).
//   * results OVERWRITE their target, never accumulate. Nothing is allocated and no format is chosen in a call
//     with a number of rows seen before; prepare(rows) does that work ahead of time.
//   * NaN in gives NaN out, as in PyTorch: a diverged network shows in its loss.
//   * spans are memory of this backend; an operation borrows them for the call. On a device the host cannot read them:
//     write() and read() move values. Activations (the tensors x, y, dx, dy) may be stored in another type and with
//     padded channels: their spans have activation_floats() floats, and only the backend looks inside. Everything else
//     (parameters, gradients, state, targets) is float32 in the order stated.
//   * on a device, calls return before the work is done, in the order of the calls; read() and finish() wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/operations.hpp"
#include "kernels/step_and_collectives.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// One allocation of floats, 64-byte aligned, zeroed, freed by its backend's deleter. Move-only.
class Arena {
 public:
  using Free = std::function<void(float*)>;
  Arena() = default;
  Arena(float* data, std::size_t count, Free free, int file = -1)
      : data_(data, std::move(free)), count_(count), file_(file) {}
  Span span() { return {data_.get(), count_}; }
  ConstSpan span() const { return {data_.get(), count_}; }
  std::size_t size() const { return count_; }
  /// The open file that holds the floats, from its beginning, so that other processes can map them; -1: none does.
  int file() const { return file_; }

 private:
  std::unique_ptr<float, Free> data_;
  std::size_t count_ = 0;
  int file_ = -1;
};

/// Where the host puts the samples and targets of the coming batch, and the same in the backend's memory. A device
/// backend copies one batch while it computes on the one before.
class Feed {
 public:
  struct HostBatch {
    Span x, targets;  ///< float32, (rows, spatial..., channels) and (rows, outputs)
  };
  struct Batch {
    ConstTensor x, targets;
  };
  virtual ~Feed() = default;
  virtual HostBatch host(Index rows) = 0;  ///< memory to fill; waits until it is free
  virtual Batch submit(Index rows) = 0;    ///< submits what was filled; valid until the next submit
};

/// A data set in the backend's memory, of which steps pick their rows themselves.
class SampleTable {
 public:
  struct Settings {
    Shape samples;  ///< n: rows of the table
    Index outputs = 0;
    std::int64_t first = 0;  ///< id of row 0
    Index most_rows = 0;     ///< most rows of a batch
  };
  virtual ~SampleTable() = default;
  /// Rows [row, row + n) from the host's memory, as Feed::HostBatch has them.
  virtual void fill(Index row, const Feed::HostBatch& rows) = 0;
  /// The rows of the step's ids; part of a captured step. Valid until the next gather.
  virtual Feed::Batch gather(const StepContext& step) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;         ///< "reference", "onednn", "cuda"
  virtual std::string description() const = 0;  ///< library, version, instruction set, threads: for logs and results

  // Memory.
  virtual Arena allocate(Index count) = 0;
  /// In a file that other processes can map (Arena::file), where the host and the backend can do so.
  virtual Arena allocate_shared(Index count) { return allocate(count); }
  /// ConfigError where so many floats (for `what`) will not fit, before any is allocated.
  virtual void require_memory(Index floats, const std::string& what) { (void)floats, (void)what; }
  virtual void write(ConstSpan host, Span x);  ///< from the host's memory
  virtual void read(ConstSpan x, Span host);   ///< to the host's memory, when all calls before are done
  /// The shape in which an activation is stored (its channels padded), and the floats of a span that holds it: the
  /// positions one after the other, each with as many.
  virtual Shape stored(const Shape& shape) const { return shape; }
  virtual Index activation_floats(const Shape& shape) const { return shape.count(); }
  /// Whether activate(), add() and copy_channels() take slices of a wider tensor's channels (Tensor::pitch). Operation
  /// objects answer for themselves. Nothing else is ever given one.
  virtual bool accepts_slices() const { return false; }
  virtual void write_activation(ConstSpan host, Tensor x);  ///< on the host float32 and unpadded
  virtual void read_activation(ConstTensor x, Span host);
  virtual std::unique_ptr<Feed> feed(const Shape& samples, Index outputs);  ///< for batches of at most samples.n

  /// Optional: a feed whose host memory takes samples of a finer resolution, and averages each block of factors'
  /// neighbours on the way into the backend's own. Null where the host does that as well.
  virtual std::unique_ptr<Feed> averaging_feed(const Shape& fine, Index outputs, const Extent& factors) {
    return (void)fine, (void)outputs, (void)factors, nullptr;
  }
  /// Null where the backend has no memory of its own, or too little.
  virtual std::unique_ptr<SampleTable> table(const SampleTable::Settings& settings) { return (void)settings, nullptr; }

  // Steps.
  /// Makes the numbers of a step known. Before every step's first call.
  virtual void begin(const StepContext& step) { (void)step; }
  /// Runs the calls of one step. A device backend may capture them at first, as a CUDA graph, and replay the graph for
  /// later steps with the same key: addresses and shapes must then be the same, and all other numbers come from
  /// begin().
  virtual void run_captured(std::uint64_t key, const std::function<void()>& calls) { (void)key, calls(); }
  virtual void drop_captures() {}
  virtual void finish() {}  ///< waits for all calls; FaultError if one failed
  /// True where a call is done when it returns, so that looking at its results costs nothing.
  virtual bool synchronous() const { return true; }
  /// The ranks' sums over device memory; null: the host's own (MPI) serve.
  virtual std::unique_ptr<AllReduce> all_reduce(const Peers& peers) { return (void)peers, nullptr; }
  /// Messages from and to device memory between ranks that share samples; null: the host's own (MPI) serve.
  virtual std::unique_ptr<Messages> messages(const Peers& peers) { return (void)peers, nullptr; }

  // The operations, listed and described at the end of kernels/operations.hpp.
  MRMF_BACKEND_OPERATIONS(MRMF_PURE_OPERATION)
  // And those with one form for all backends in the host's memory.
  /// y = x in another shape of as many elements per row; may be the same memory where the stored forms are equal.
  virtual void reshape(ConstTensor x, Tensor y);
  /// x becomes its sum over the ranks, in float32 whatever the stored form. `floats`: x.shape.count() of them to work
  /// with, where the stored form is another than plain float32.
  virtual void add_over(AllReduce& ranks, Tensor x, Span floats);
  /// history[step.batch_index] = value[0]
  virtual void append_history(const StepContext& step, ConstSpan value, Span history);
};

std::unique_ptr<Backend> make_reference_backend();
/// threads 0: OpenMP's default. Fewer compute where OpenMP grants no more. FaultError: so many cannot be started.
std::unique_ptr<Backend> make_cpu_backend(int threads, Precision precision = Precision::fp32);
/// A CPU backend of one thread, with fixed kernels, that computes as this one does.
std::unique_ptr<Backend> make_one_thread_backend(const Backend& like);

}  // namespace mrmf
