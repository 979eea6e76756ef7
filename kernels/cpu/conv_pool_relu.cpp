// ConvPoolOp on the fused kernels: owns the scratch memory, divides samples among threads.
#include <omp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {
namespace {

const fused::Kernels& kernels_for(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512: return *fused::avx512_kernels();
    case InstructionSet::avx2: return *fused::avx2_kernels();
    case InstructionSet::generic: break;
  }
  return *fused::generic_kernels();
}

}  // namespace

bool fused_conv_pool_serves(const ConvGeometry& c, const PoolGeometry& p) {
  const Extent none{0, 0, 0}, one{1, 1, 1};
  return p.kind == PoolKind::max && p.in == c.out() && p.channels == c.out_channels && p.window == p.stride &&
         c.stride == one && c.dilation == one && c.pad_before == none && c.pad_after == none && c.in[0] == 1 &&
         c.in[1] == 1 && c.kernel[0] == 1 && c.kernel[1] == 1 && p.window[0] == 1 && p.window[1] == 1 &&
         p.window[2] <= 255;
}

namespace {

fused::Geometry make_geometry(const ConvGeometry& c, const PoolGeometry& p, long lanes) {
  const auto whole = [lanes](long n) { return (n + lanes - 1) / lanes * lanes; };
  fused::Geometry g{};
  g.in_channels = c.in_channels;
  g.out_channels = c.out_channels;
  g.kernel = c.kernel[2];
  g.pool = p.window[2];
  g.in = c.in[2];
  g.windows = p.out()[2];
  g.row = g.kernel * g.in_channels;
  g.padded_row = whole(g.row);
  g.padded_out = whole(g.out_channels);
  constexpr long input_floats = 24 * 1024 / sizeof(float);  // most of an L1 cache
  const long most = std::clamp(input_floats / (g.pool * g.in_channels), 8L, 64L);
  const long chunks = (g.windows + most - 1) / most;
  g.chunk = (g.windows + chunks - 1) / chunks;
  return g;
}

/// One thread's scratch: its memory and the pointers into it.
class ThreadScratch {
 public:
  ThreadScratch(const fused::Geometry& g, long lanes)
      : floats_(make_arena(g.padded_out * 2 + entries(g) + lanes * 3 + g.out_channels * g.chunk +
                           (g.in * g.in_channels + lanes) * 2 + g.out_channels * g.padded_row + g.chunk * g.row * 4)),
        ints_(static_cast<std::size_t>(g.padded_out + groups(g) + entries(g) + lanes + g.out_channels +
                                       g.out_channels * g.chunk)) {
    float* f = floats_.span().data();
    const auto take = [&f](long count) { return std::exchange(f, f + count); };
    s_.gradient = take(g.padded_out);
    s_.db = take(g.padded_out);
    s_.dw = take(g.out_channels * g.padded_row);
    s_.candidates = take(g.chunk * g.row * 4);
    s_.value = take(entries(g) + lanes);
    s_.x = take(g.in * g.in_channels + lanes);
    s_.dx = take(g.in * g.in_channels + lanes);
    s_.channel_value = take(g.out_channels * g.chunk);
    int* i = ints_.data();
    const auto take_int = [&i](long count) { return std::exchange(i, i + count); };
    s_.code = take_int(g.padded_out);
    std::fill_n(s_.code + g.out_channels, g.padded_out - g.out_channels, -1);
    s_.group_begin = take_int(groups(g));
    s_.channel = take_int(entries(g) + lanes);
    s_.channel_count = take_int(g.out_channels);
    s_.channel_offset = take_int(g.out_channels * g.chunk);
  }
  const fused::Scratch& get() const { return s_; }

 private:
  static long entries(const fused::Geometry& g) { return g.chunk * g.padded_out; }
  static long groups(const fused::Geometry& g) { return g.chunk * g.pool + 1; }

  Arena floats_;
  std::vector<int> ints_;
  fused::Scratch s_{};
};

class FusedConvPool final : public ConvPoolOp {
 public:
  FusedConvPool(const fused::Kernels& kernels, const ConvGeometry& conv, const PoolGeometry& pool)
      : kernels_(kernels),
        g_(make_geometry(conv, pool, kernels_.lanes)),
        packed_forward_(make_arena(g_.padded_out * (g_.row + 1))),
        packed_backward_(make_arena(g_.out_channels * g_.padded_row)) {
    for (int t = 0; t < omp_get_max_threads(); ++t) scratch_.emplace_back(g_, kernels_.lanes);
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    kernels_.pack_forward(g_, w.data(), b.data(), packed_forward_.span().data());
    const long in = g_.in * g_.in_channels, out = g_.windows * g_.out_channels;
#pragma omp parallel for schedule(static) num_threads(threads())
    for (long n = 0; n < x.shape.n; ++n)
      kernels_.forward(g_, {packed_forward_.span().data(), x.data.data() + n * in, y.data.data() + n * out,
                            winner.empty() ? nullptr : winner.data() + n * out});
  }

  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                Span dw, Span db, Tensor dx) override {
    const long in = g_.in * g_.in_channels, out = g_.windows * g_.out_channels, rows = x.shape.n;
    const bool with_dx = !dx.data.empty();
    float* packed = with_dx ? packed_backward_.span().data() : nullptr;
    if (with_dx) kernels_.pack_backward(g_, w.data(), packed);
#pragma omp parallel num_threads(threads())
    {
      const auto granted = static_cast<std::size_t>(omp_get_num_threads());  // OpenMP may give fewer than asked
      const fused::Scratch& s = scratch_[static_cast<std::size_t>(omp_get_thread_num())].get();
      std::fill_n(s.dw, g_.out_channels * g_.padded_row, 0.0F);
      std::fill_n(s.db, g_.padded_out, 0.0F);
#pragma omp for schedule(static)
      for (long n = 0; n < rows; ++n) {
        const float* sample = x.data.data() + n * in;
        if (n == rows - 1) sample = std::copy_n(sample, in, s.x) - in;
        kernels_.backward(g_,
                          {packed, sample, y.data.data() + n * out, dy.data.data() + n * out, winner.data() + n * out,
                           with_dx ? dx.data.data() + n * in : nullptr},
                          s);
      }
#pragma omp for schedule(static)
      for (long o = 0; o < g_.out_channels; ++o)
        add_threads(granted, o, dw.data() + o * g_.row, db[static_cast<std::size_t>(o)]);
    }
  }

 private:
  int threads() const { return static_cast<int>(scratch_.size()); }

  /// Sums over the threads that worked, in their order, so the result depends only on their number.
  void add_threads(std::size_t count, long o, float* dw, float& db) const {
    std::fill_n(dw, g_.row, 0.0F);
    db = 0;
    for (std::size_t t = 0; t < count; ++t) {
      const fused::Scratch& s = scratch_[t].get();
      for (long i = 0; i < g_.row; ++i) dw[i] += s.dw[o * g_.padded_row + i];
      db += s.db[o];
    }
  }

  const fused::Kernels& kernels_;
  fused::Geometry g_;
  Arena packed_forward_, packed_backward_;
  std::vector<ThreadScratch> scratch_;
};

}  // namespace

std::unique_ptr<ConvPoolOp> make_fused_conv_pool(InstructionSet set, const ConvGeometry& conv,
                                                 const PoolGeometry& pool) {
  return std::make_unique<FusedConvPool>(kernels_for(set), conv, pool);
}

}  // namespace mrmf::cpu
