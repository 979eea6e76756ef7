// Arenas of parameters and gradients: sums, clipping, and the optimizer's updates.
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// Four parameters from `first` on, as one vector where the arrays allow it; zeros behind the end.
struct Arrays {
  std::size_t count;
  bool aligned;

  MRMF_HD void read(const float* from, std::size_t first, float (&v)[4]) const {
    if (aligned && first + 4 <= count) return load(from, first / 4, v);
    for (std::size_t i = 0; i < 4; ++i) v[i] = first + i < count ? from[first + i] : 0;
  }
  MRMF_HD void write(const float (&v)[4], float* to, std::size_t first) const {
    if (aligned && first + 4 <= count) return store(v, to, first / 4);
    for (std::size_t i = 0; i < 4; ++i)
      if (first + i < count) to[first + i] = v[i];
  }
};

/// Reads w, dw and velocity, writes w and velocity, which is null where there is no momentum.
struct Sgd {
  Arrays arrays;
  const StepBlock* step;
  float* w;
  const float* dw;
  float* velocity;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const SgdStep numbers = step->sgd;
    const std::size_t first = std::size_t{4} * vector;
    float weight[4], gradient[4], speed[4] = {};
    arrays.read(w, first, weight);
    arrays.read(dw, first, gradient);
    if (velocity != nullptr) arrays.read(velocity, first, speed);
    for (int i = 0; i < 4; ++i) sgd_update(numbers, weight[i], gradient[i], speed[i]);
    arrays.write(weight, w, first);
    if (velocity != nullptr) arrays.write(speed, velocity, first);
  }
};

/// Reads w, dw and m, writes w and m.
struct Lion {
  Arrays arrays;
  const StepBlock* step;
  float* w;
  const float* dw;
  float* m;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const LionStep numbers = step->lion;
    const std::size_t first = std::size_t{4} * vector;
    float weight[4], gradient[4], momentum[4];
    arrays.read(w, first, weight);
    arrays.read(dw, first, gradient);
    arrays.read(m, first, momentum);
    for (int i = 0; i < 4; ++i) lion_update(numbers, weight[i], gradient[i], momentum[i]);
    arrays.write(weight, w, first);
    arrays.write(momentum, m, first);
  }
};

/// Reads dw and m, writes the direction in place of dw, and m.
struct LionDirections {
  Arrays arrays;
  const StepBlock* step;
  float *dw, *m;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const LionStep numbers = step->lion;
    const std::size_t first = std::size_t{4} * vector;
    float direction[4], momentum[4];
    arrays.read(dw, first, direction);
    arrays.read(m, first, momentum);
    for (int i = 0; i < 4; ++i) direction[i] = lion_direction(numbers, direction[i], momentum[i]);
    arrays.write(direction, dw, first);
    arrays.write(momentum, m, first);
  }
};

/// Reads w and directions, writes w.
struct LionMove {
  Arrays arrays;
  const StepBlock* step;
  float* w;
  const float* directions;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const LionStep numbers = step->lion;
    const std::size_t first = std::size_t{4} * vector;
    float weight[4], direction[4];
    arrays.read(w, first, weight);
    arrays.read(directions, first, direction);
    for (int i = 0; i < 4; ++i) mrmf::lion_move(numbers, weight[i], direction[i]);
    arrays.write(weight, w, first);
  }
};

/// Reads w, dw, m and v, writes w, m and v.
struct Adam {
  Arrays arrays;
  const StepBlock* step;
  std::size_t group;
  float* w;
  const float* dw;
  float *m, *v;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const AdamStep numbers = step->adam[group];
    const std::size_t first = std::size_t{4} * vector;
    float weight[4], gradient[4], mean[4], square[4];
    arrays.read(w, first, weight);
    arrays.read(dw, first, gradient);
    arrays.read(m, first, mean);
    arrays.read(v, first, square);
    for (int i = 0; i < 4; ++i) adam_update(numbers, weight[i], gradient[i], mean[i], square[i]);
    arrays.write(weight, w, first);
    arrays.write(mean, m, first);
    arrays.write(square, v, first);
  }
};

/// Reads x and y, writes y.
struct Accumulate {
  Arrays arrays;
  const float* x;
  float* y;

  MRMF_HD void operator()(std::uint32_t vector) const {
    const std::size_t first = std::size_t{4} * vector;
    float summand[4], sum[4];
    arrays.read(x, first, summand);
    arrays.read(y, first, sum);
    for (int i = 0; i < 4; ++i) sum[i] += summand[i];
    arrays.write(sum, y, first);
  }
};

/// Leaves what values are to be multiplied by whose squares have this sum.
struct ToFactor {
  float most;
  float* factor;

  MRMF_HD void operator()(double squares) const { *factor = clip_factor(squares, most); }
};

/// Adds the sum to another one.
struct ToTotal {
  double* total;

  MRMF_HD void operator()(double squares) const { *total += squares; }
};

/// Adds the squares of x, a vector of four at a time, for `to`. In double: a square of a float may be too large for
/// one.
template <class To>
struct Squares {
  static constexpr int unroll = 4;
  using Partial = double;
  Arrays arrays;
  const float* x;
  To to;

  MRMF_HD auto at(std::uint32_t) const {
    return [f = *this](std::uint32_t vector, double(&sums)[1][1]) {
      float values[4];
      f.arrays.read(f.x, std::size_t{4} * vector, values);
      for (const float value : values) sums[0][0] += double{value} * value;
    };
  }
  MRMF_HD void finish(Index, const double (&totals)[1]) const { to(totals[0]); }
};

struct Zero {
  double* value;

  MRMF_HD void operator()(std::uint32_t) const { *value = 0; }
};

struct FactorOfTotal {
  const double* total;
  ToFactor to;

  MRMF_HD void operator()(std::uint32_t) const { to(*total); }
};

/// Reads and writes x.
struct Multiply {
  Arrays arrays;
  const float* factor;
  float* x;

  MRMF_HD void operator()(std::uint32_t vector) const {
    if (*factor == 1.0F) return;
    const std::size_t first = std::size_t{4} * vector;
    float values[4];
    arrays.read(x, first, values);
    for (float& value : values) value *= *factor;
    arrays.write(values, x, first);
  }
};

Arrays arrays_of(std::initializer_list<const float*> pointers, std::size_t count) {
  const bool aligned = std::all_of(pointers.begin(), pointers.end(),
                                   [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; });
  return {count, aligned};
}

Index vectors_of(Span w) { return (std::ssize(w) + 3) / 4; }

}  // namespace

void accumulate(cudaStream_t stream, ConstSpan x, Span y) {
  for_each(stream, vectors_of(y), Accumulate{arrays_of({x.data(), y.data()}, y.size()), x.data(), y.data()});
}

namespace {

// The scratch: the sum over all parts, the factor, and the partial sums. A row is a vector.
struct ClipScratch {
  double* total;
  float* factor;
  double* partials;

  explicit ClipScratch(void* memory)
      : total(static_cast<double*>(memory)), factor(reinterpret_cast<float*>(total + 1)), partials(total + 2) {}
};

Reduction squares(Index count, double* partials) { return {(count + 3) / 4, 1, 1, partials}; }

void multiply(cudaStream_t stream, Span x, const float* factor) {
  for_each(stream, vectors_of(x), Multiply{arrays_of({x.data()}, x.size()), factor, x.data()});
}

}  // namespace

std::size_t clip_bytes(Index count) {
  return static_cast<std::size_t>(squares(count, nullptr).partial_doubles(1) + 2) * sizeof(double);
}

void clip(cudaStream_t stream, Span x, float most, void* scratch) {
  if (x.empty()) return;
  const ClipScratch kept(scratch);
  reduce<1, 1>(stream, squares(std::ssize(x), kept.partials),
               Squares<ToFactor>{arrays_of({x.data()}, x.size()), x.data(), {most, kept.factor}});
  multiply(stream, x, kept.factor);
}

void clip_over(cudaStream_t stream, Span x, float most, std::span<const Span> counted, AllReduce& ranks,
               void* scratch) {
  const ClipScratch kept(scratch);
  for_each(stream, 1, Zero{kept.total});
  for (const Span part : counted)
    if (!part.empty())
      reduce<1, 1>(stream, squares(std::ssize(part), kept.partials),
                   Squares<ToTotal>{arrays_of({part.data()}, part.size()), part.data(), {kept.total}});
  ranks.sum({kept.total, 1});
  for_each(stream, 1, FactorOfTotal{kept.total, {most, kept.factor}});
  multiply(stream, x, kept.factor);
}

void sgd(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan dw, Span velocity) {
  float* const speed = velocity.empty() ? nullptr : velocity.data();
  const Arrays arrays = arrays_of({w.data(), dw.data(), speed}, w.size());
  for_each(stream, vectors_of(w), Sgd{arrays, step, w.data(), dw.data(), speed});
}

void lion(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan dw, Span m) {
  const Arrays arrays = arrays_of({w.data(), dw.data(), m.data()}, w.size());
  for_each(stream, vectors_of(w), Lion{arrays, step, w.data(), dw.data(), m.data()});
}

void lion_directions(cudaStream_t stream, const StepBlock* step, Span dw, Span m) {
  const Arrays arrays = arrays_of({dw.data(), m.data()}, dw.size());
  for_each(stream, vectors_of(dw), LionDirections{arrays, step, dw.data(), m.data()});
}

void lion_move(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan directions) {
  const Arrays arrays = arrays_of({w.data(), directions.data()}, w.size());
  for_each(stream, vectors_of(w), LionMove{arrays, step, w.data(), directions.data()});
}

void adam(cudaStream_t stream, const StepBlock* step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) {
  const Arrays arrays = arrays_of({w.data(), dw.data(), m.data(), v.data()}, w.size());
  for_each(stream, vectors_of(w), Adam{arrays, step, group, w.data(), dw.data(), m.data(), v.data()});
}

}  // namespace mrmf::cuda
