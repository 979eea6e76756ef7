// Memory for one layer under test: every buffer has guard values on both sides, a page behind it that nobody may touch,
// and starts poisoned with NaN.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "layers/layer.hpp"

namespace mrmf::test {

/// A span between two runs of guard values; a write outside of it shows in intact(). The second run is as short as the
/// alignment of tensors allows (0 to 15 floats), and a read behind it ends the test with SIGSEGV.
class Guarded {
 public:
  explicit Guarded(Index count);
  Span span() { return floats_.subspan(kGuard, count_); }
  ConstSpan span() const { return floats_.subspan(kGuard, count_); }
  bool intact() const;
  void poison();
  void set(ConstSpan values);
  std::vector<float> values() const { return {span().begin(), span().end()}; }

 private:
  static constexpr std::size_t kGuard = 16;  // 64 bytes: the span keeps the arena's alignment
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* pages) const;
  };
  std::unique_ptr<std::byte, Unmap> pages_{nullptr, Unmap{0}};
  Span floats_;  // both guards and what is between them
  std::size_t count_;
};

/// A tensor, or some of the channels of a wider one.
class SliceMemory {
 public:
  SliceMemory(const Shape& shape, bool slice);
  Tensor tensor() { return {shape_, inside(memory_.span()), slice_ ? pitch() : 0}; }
  ConstTensor tensor() const { return {shape_, inside(memory_.span()), slice_ ? pitch() : 0}; }
  void set(ConstSpan values);
  std::vector<float> values() const;
  bool intact() const;  ///< the guards, and the channels beside the slice

 private:
  static constexpr Index kBefore = 3, kBehind = 2;  // channels
  Index pitch() const { return slice_ ? kBefore + shape_.channels + kBehind : shape_.channels; }
  template <class Some>
  Some inside(Some whole) const {
    return slice_ ? whole.subspan(kBefore, whole.size() - kBefore - kBehind) : whole;
  }

  Shape shape_;
  bool slice_;
  Guarded memory_;
};

/// All memory of one layer for calls with `rows` rows, and the calls themselves.
class LayerMemory {
 public:
  LayerMemory(const Layer& layer, const Shape& in, Index rows);

  /// Random x and dy in +-1; initialised parameters and state, moved off their round values.
  void fill(const Layer& layer, std::uint64_t seed);
  void copy_inputs(const LayerMemory& from);

  LayerBuffers buffers_of(const StepContext& step) {
    return {step, params.span(), grads.span(), state.span(), cache.span()};
  }
  void forward(Layer& layer, const StepContext& step) {
    layer.forward(buffers_of(step), {in, x.span()}, {out, y.span()});
  }
  void backward(Layer& layer, const StepContext& step) {
    layer.backward(buffers_of(step), {in, x.span()}, {out, y.span()}, {out, dy.span()}, {in, dx.span()});
  }
  bool guards_intact() const;

  Shape in, out;
  Guarded x, y, dy, dx, params, grads, state, cache;
};

bool all_finite(ConstSpan values);

}  // namespace mrmf::test
