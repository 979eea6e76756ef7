// Plain functions of the backend: swapping, filling, activations, dropout, sums and channels.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/formulas.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {
namespace {

/// In double, and without the instruction set's own loops: the same bits on every rank, whatever its processor.
double squares_of(const float* x, Index count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += double{x[i]} * x[i];
  return sum;
}

class Clip final : public ClipOp {
 public:
  explicit Clip(Index count) : squares_(static_cast<std::size_t>(pieces_of(count))) {}

  void run(Span x, float most) override {
    const Index count = std::ssize(x);
    for_ranges(count, [&](Index first, Index rows) {
      squares_[static_cast<std::size_t>(first / kPiece)] = squares_of(x.data() + first, rows);
    });
    double squares = 0;
    for (Index p = 0; p < pieces_of(count); ++p) squares += squares_[static_cast<std::size_t>(p)];
    const float factor = clip_factor(squares, most);
    if (factor == 1) return;
    for_ranges(count, [&](Index first, Index rows) {
      for (float& value : x.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows))) value *= factor;
    });
  }

 private:
  std::vector<double> squares_;  // each piece's sum of squares: they are added in their order
};

/// Calls body(offsets, count) on pieces of tensors of one shape, one offset for each; positions where one is a slice.
template <std::size_t N, class Body>
void for_pieces(const std::array<ConstTensor, N>& tensors, const Body& body) {
  const Shape& shape = tensors[0].shape;
  if (std::ranges::none_of(tensors, [](const ConstTensor& t) { return t.pitch != 0; }))
    return for_ranges(shape.count(), [&](Index first, Index count) {
      std::array<Index, N> at;
      at.fill(first);
      vectorised([&] { body(at, count); });
    });
  constexpr Index piece = 512;  // positions
  const Index positions = shape.n * product(shape.spatial), pieces = (positions + piece - 1) / piece;
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < pieces; ++i)
    vectorised([&] {
      std::array<Index, N> at{};
      for (Index p = i * piece; p < std::min(positions, (i + 1) * piece); ++p) {
        for (std::size_t t = 0; t < N; ++t) at[t] = p * tensors[t].stride();
        body(at, shape.channels);
      }
    });
}

// Vectors have no exp and no erfc of the C library, so these loops bring their own, to about 1e-7.

/// e^x, a polynomial on [-ln 2 / 2, ln 2 / 2] and a power of two. NaN stays NaN.
inline float exponential(float x) {
  constexpr float most = 88.3F, least = -87.3F, to_even = 0x1.8p23F;
  x = x > most ? most : x;
  x = x < least ? least : x;
  const float shifted = x * 1.44269504F + to_even, n = shifted - to_even;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  const float p =
      ((((1.98756915e-4F * r + 1.39819995e-3F) * r + 8.33345191e-3F) * r + 4.16657959e-2F) * r + 1.66666655e-1F) * r +
      0.5F;
  const auto power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;  // n is in the low bits
  return (p * r * r + r + 1.0F) * std::bit_cast<float>(power);
}

inline float fast_logistic(float x) { return 1.0F / (1.0F + exponential(-x)); }

/// normal_share() of kernels/formulas.hpp, and sqrt(2 pi) times the density (Abramowitz & Stegun 1964, 7.1.26).
struct Normal {
  float share, bell;
};
inline Normal fast_normal(float x) {
  const float z = std::abs(x) * 0.70710678F, t = 1.0F / (1.0F + 0.3275911F * z), bell = exponential(-z * z);
  const float p = (((1.06140543F * t - 1.45315203F) * t + 1.42141374F) * t - 0.28449674F) * t + 0.25482959F;
  const float tail = 0.5F * p * t * bell;
  return {x < 0 ? tail : 1.0F - tail, bell};
}

// A result may overlap its argument only element on element, so the iterations below are independent (ivdep).

inline void activate_range(ActivationKind kind, float slope, const float* x, float* y, Index count) {
  switch (kind) {
    case ActivationKind::relu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::relu, slope, x[i]);
      break;
    case ActivationKind::leaky_relu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::leaky_relu, slope, x[i]);
      break;
    case ActivationKind::tanh:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::tanh, slope, x[i]);
      break;
    case ActivationKind::gelu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = x[i] * fast_normal(x[i]).share;
      break;
    case ActivationKind::silu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = x[i] * fast_logistic(x[i]);
      break;
    case ActivationKind::softplus:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::softplus, slope, x[i]);
      break;
    case ActivationKind::sigmoid:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = fast_logistic(x[i]);
      break;
    case ActivationKind::square:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::square, slope, x[i]);
      break;
    case ActivationKind::root:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::root, slope, x[i]);
      break;
  }
}

/// y: the input of gelu, silu and square.
inline void activate_backward_range(ActivationKind kind, float slope, const float* y, const float* dy, float* dx,
                                    Index count) {
  switch (kind) {
    case ActivationKind::relu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::relu, slope, y[i], dy[i]);
      break;
    case ActivationKind::leaky_relu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::leaky_relu, slope, y[i], dy[i]);
      break;
    case ActivationKind::tanh:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::tanh, slope, y[i], dy[i]);
      break;
    case ActivationKind::gelu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) {
        const Normal normal = fast_normal(y[i]);
        dx[i] = dy[i] * (normal.share + y[i] * (0.39894228F * normal.bell));
      }
      break;
    case ActivationKind::silu:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) {
        const float share = fast_logistic(y[i]);
        dx[i] = dy[i] * (share * (1.0F + y[i] * (1.0F - share)));
      }
      break;
    case ActivationKind::softplus:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::softplus, slope, y[i], dy[i]);
      break;
    case ActivationKind::sigmoid:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::sigmoid, slope, y[i], dy[i]);
      break;
    case ActivationKind::square:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::square, slope, y[i], dy[i]);
      break;
    case ActivationKind::root:
#pragma GCC ivdep
      for (Index i = 0; i < count; ++i) dx[i] = activation_gradient(ActivationKind::root, slope, y[i], dy[i]);
      break;
  }
}

/// Philox blocks computed side by side, of eight features each.
constexpr Index dropout_blocks = 32;
constexpr Index dropout_features = 8 * dropout_blocks;

/// philox() of kernels/random.hpp for consecutive blocks, lane by lane so that the compiler vectorises it.
struct PhiloxLanes {
  std::uint32_t word[4][dropout_blocks];
};
inline void philox_rounds(std::uint64_t key, PhiloxLanes& c) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85)
    for (Index b = 0; b < dropout_blocks; ++b) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.word[0][b];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c.word[2][b];
      c.word[0][b] = static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1][b] ^ k0;
      c.word[1][b] = static_cast<std::uint32_t>(p1);
      c.word[2][b] = static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3][b] ^ k1;
      c.word[3][b] = static_cast<std::uint32_t>(p0);
    }
}

/// Applies the mask to features [first, first + count) of one row; count <= dropout_features, first a multiple of it.
/// The counters are those of DropoutMask::block, the halves of a word those of DropoutMask::keeps.
inline void dropout_range(const DropoutMask& mask, std::int64_t id, Index first, Index count, const float* x,
                          float* y) {
  const auto wide = static_cast<std::uint64_t>(id);
  const std::uint32_t threshold = mask.threshold;
  const float scale = mask.scale;
  PhiloxLanes c;
  for (Index b = 0; b < dropout_blocks; ++b) {
    c.word[0][b] = mask.step_low;
    c.word[1][b] = static_cast<std::uint32_t>(wide);
    c.word[2][b] = static_cast<std::uint32_t>(wide >> 32);
    c.word[3][b] = static_cast<std::uint32_t>(first / 8 + b);
  }
  philox_rounds(mask.key, c);
  std::uint32_t words[4 * dropout_blocks];
  for (Index b = 0; b < dropout_blocks; ++b)
    for (Index w = 0; w < 4; ++w) words[4 * b + w] = c.word[w][b];
  std::uint16_t bits[dropout_features];
  std::memcpy(bits, words, sizeof bits);  // x86 is little-endian: the low half of a word is the even feature
#pragma GCC ivdep
  for (Index i = 0; i < count; ++i) y[i] = x[i] * (bits[i] >= threshold ? scale : 0.0F);
}

/// Applies the mask to positions of a box, line by line. A line begins at any feature.
void dropout_box(const DropoutMask& mask, const StepContext& step, const DropoutSettings& settings, ConstTensor x,
                 Tensor y) {
  const Extent& sizes = x.shape.spatial;
  const Index floats = sizes[2] * x.shape.channels, lines = x.shape.n * sizes[0] * sizes[1];
#pragma omp parallel for schedule(static)
  for (Index line = 0; line < lines; ++line) {
    const Index j = line % sizes[1], i = line / sizes[1] % sizes[0], row = line / (sizes[1] * sizes[0]);
    const Index first = settings.position(sizes, i, j, 0) * x.shape.channels;
    const float* const from = x.data.data() + line * floats;
    float* const to = y.data.data() + line * floats;
    Random4 block{};
    for (Index f = 0; f < floats; ++f) {
      const Index feature = first + f;
      if (f == 0 || feature % 8 == 0) block = mask.block(step.ids[static_cast<std::size_t>(row)], feature);
      to[f] = from[f] * (mask.keeps(block, feature) ? mask.scale : 0.0F);
    }
  }
}

}  // namespace

void CpuBackend::swap(Span a, Span b) {
  for_ranges(std::ssize(a), [&](Index first, Index count) {
    std::swap_ranges(a.data() + first, a.data() + first + count, b.data() + first);
  });
}

void CpuBackend::fill(Span x, float value) {
  for_ranges(std::ssize(x), [&](Index first, Index count) { std::fill_n(x.data() + first, count, value); });
}

void CpuBackend::activate(ActivationKind kind, float slope, ConstTensor x, Tensor y) {
  for_pieces<2>({x, y}, [&](const std::array<Index, 2>& at, Index count) {
    activate_range(kind, slope, x.data.data() + at[0], y.data.data() + at[1], count);
  });
}

void CpuBackend::activate_backward(ActivationKind kind, float slope, ConstTensor kept, ConstTensor dy, Tensor dx) {
  for_pieces<2>({kept, dy}, [&](const std::array<Index, 2>& at, Index count) {
    activate_backward_range(kind, slope, kept.data.data() + at[0], dy.data.data() + at[1], dx.data.data() + at[1],
                            count);
  });
}

void CpuBackend::dropout(const StepContext& step, const DropoutSettings& settings, ConstTensor x, Tensor y) {
  if (!step.training) {
    if (x.data.data() == y.data.data()) return;
    for_ranges(std::ssize(x.data),
               [&](Index first, Index count) { std::copy_n(x.data.data() + first, count, y.data.data() + first); });
    return;
  }
  MRMF_CHECK(std::ssize(step.ids) >= x.shape.n, "dropout needs the sample id of every row");
  const DropoutMask mask(step, settings.layer, settings.rate);
  if (settings.sample != Extent{0, 0, 0}) return dropout_box(mask, step, settings, x, y);
  const Index features = x.shape.per_sample();
#pragma omp parallel for schedule(static)
  for (Index row = 0; row < x.shape.n; ++row)
    vectorised([&] {
      const std::int64_t id = step.ids[static_cast<std::size_t>(row)];
      for (Index first = 0; first < features; first += dropout_features)
        dropout_range(mask, id, first, std::min(dropout_features, features - first),
                      x.data.data() + row * features + first, y.data.data() + row * features + first);
    });
}

namespace {

inline void add_range(const float* a, const float* b, float* y, Index count) {
#pragma GCC ivdep
  for (Index i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

}  // namespace

void CpuBackend::add(ConstTensor a, ConstTensor b, Tensor y) {
  for_pieces<3>({a, b, y}, [&](const std::array<Index, 3>& at, Index count) {
    add_range(a.data.data() + at[0], b.data.data() + at[1], y.data.data() + at[2], count);
  });
}

void CpuBackend::copy_channels(ConstTensor x, Index from, Tensor y, Index to, Index count) {
  const Index positions = x.shape.n * product(x.shape.spatial);
  const float* const source = x.data.data() + from;
  float* const target = y.data.data() + to;
#pragma omp parallel for schedule(static) if (positions * count > 8192)
  for (Index p = 0; p < positions; ++p) std::copy_n(source + p * x.stride(), count, target + p * y.shape.channels);
}

namespace {

/// The float at which a row of positions along the last axis begins.
inline Index line_start(const Shape& shape, Index row, const Extent& first, Index i, Index j) {
  const Extent& s = shape.spatial;
  return (((row * s[0] + first[0] + i) * s[1] + first[1] + j) * s[2] + first[2]) * shape.channels;
}

}  // namespace

void CpuBackend::copy_box(ConstTensor x, Tensor y, const BoxCopy& box) {
  const Index floats = box.count[2] * x.shape.channels;
  const Index lines = x.shape.n * box.count[0] * box.count[1];
#pragma omp parallel for schedule(static) if (lines * floats > 8192)
  for (Index line = 0; line < lines; ++line) {
    const Index j = line % box.count[1], i = line / box.count[1] % box.count[0];
    const Index row = line / (box.count[1] * box.count[0]);
    const float* const source = x.data.data() + line_start(x.shape, row, box.from, i, j);
    float* const target = y.data.data() + line_start(y.shape, row, box.to, i, j);
    if (!box.add) {
      std::copy_n(source, floats, target);
      continue;
    }
#pragma omp simd
    for (Index f = 0; f < floats; ++f) target[f] += source[f];
  }
}

void CpuBackend::accumulate(ConstSpan x, Span y) {
  for_ranges(std::ssize(x), [&](Index first, Index count) {
    for (Index i = first; i < first + count; ++i) y[static_cast<std::size_t>(i)] += x[static_cast<std::size_t>(i)];
  });
}

std::unique_ptr<ClipOp> CpuBackend::clip(Index count) { return std::make_unique<Clip>(count); }

}  // namespace mrmf::cpu
