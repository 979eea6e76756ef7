// Upsampling, a line of positions at a time. Backward gathers as forward does, so threads share the lines of dx.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

/// A position along one axis of the tensor that is read, and its weight.
struct Source {
  Index position;
  float weight;
};
using Sources = std::vector<std::vector<Source>>;  // for each position of the tensor that is written

Sources forward_sources(const UpsampleGeometry& g, std::size_t axis) {
  Sources sources;
  for (Index block = 0; block < g.in[axis]; ++block)
    for (Index offset = 0; offset < g.factor[axis]; ++offset) {
      const Between b(g.kind, block, offset, g.factor[axis], g.in[axis]);
      sources.push_back({{b.low, 1 - b.weight}});
      if (b.weight > 0) sources.back().push_back({b.high, b.weight});
    }
  return sources;
}

Sources backward_sources(const UpsampleGeometry& g, std::size_t axis) {
  Sources sources(static_cast<std::size_t>(g.in[axis]));
  for (Index position = 0; position < g.in[axis]; ++position)
    for_each_reader(g.kind, position, g.factor[axis], g.in[axis], [&](Index out, float weight) {
      sources[static_cast<std::size_t>(position)].push_back({out, weight});
    });
  return sources;
}

/// y += weight * x
inline void add(Index count, float weight, const float* __restrict x, float* __restrict y) {
  for (Index i = 0; i < count; ++i) y[i] += weight * x[i];
}

/// One direction: weighted sums along each axis.
struct Gather {
  std::array<Sources, 3> sources;
  Extent from, to;  ///< sizes of what is read and of what is written
  Index channels;

  void operator()(ConstTensor x, Tensor y) const {
    const Index lines = to[0] * to[1];
    const Strides strides{x.stride(), y.stride()};
#pragma omp parallel for schedule(static)
    for (Index line = 0; line < x.shape.n * lines; ++line)
      vectorised([&] {
        const float* const sample = x.data.data() + line / lines * product(from) * strides.x;
        float* const written = y.data.data() + line * to[2] * strides.y;
        for (Index k = 0; k < to[2]; ++k) std::fill_n(written + k * strides.y, channels, 0.0F);
        for (const Source& a : sources[0][static_cast<std::size_t>(line % lines / to[1])])
          for (const Source& b : sources[1][static_cast<std::size_t>(line % to[1])])
            add_line(a.weight * b.weight, strides, sample + (a.position * from[1] + b.position) * from[2] * strides.x,
                     written);
      });
  }

 private:
  /// Floats from a position to the next.
  struct Strides {
    Index x, y;
  };
  void add_line(float weight, const Strides& strides, const float* x, float* y) const {
    for (const std::vector<Source>& of_position : sources[2]) {
      for (const Source& source : of_position)
        add(channels, weight * source.weight, x + source.position * strides.x, y);
      y += strides.y;
    }
  }
};

class Upsample final : public PoolOp {
 public:
  explicit Upsample(const UpsampleGeometry& g)
      : forward_{{forward_sources(g, 0), forward_sources(g, 1), forward_sources(g, 2)}, g.in, g.out(), g.channels},
        backward_{{backward_sources(g, 0), backward_sources(g, 1), backward_sources(g, 2)}, g.out(), g.in, g.channels} {
  }

  bool accepts_slices() const override { return true; }
  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override { forward_(x, y); }
  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override { backward_(dy, dx); }

 private:
  Gather forward_, backward_;
};

}  // namespace

std::unique_ptr<PoolOp> CpuBackend::upsample(const UpsampleGeometry& geometry, Index) {
  return std::make_unique<Upsample>(geometry);
}

}  // namespace mrmf::cpu
