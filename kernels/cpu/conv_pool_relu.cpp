// ConvPoolOp on the fused kernels: owns the scratch memory, shares samples out over threads.
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {
namespace {

const fused::Kernels& kernels_for(FusedKernels kernels) {
  if (kernels.products == FusedKernels::Products::bf16) return *fused::avx512bf16_kernels();
  return *of_set(kernels.set, fused::generic_kernels, fused::avx2_kernels, fused::avx512_kernels)();
}

/// Floats of a sample: every thread has three copies of one, and larger ones do not stay in its cache.
constexpr Index kMostSample = Index{1} << 20;

}  // namespace

bool is_unpadded_line(const ConvGeometry& c) {
  const Extent none{0, 0, 0};
  return c.in[0] == 1 && c.in[1] == 1 && c.pad_before == none && c.pad_after == none;
}

bool fused_conv_pool_serves(const ConvGeometry& c, const PoolGeometry& p) {
  const Extent one{1, 1, 1};
  Index floats = c.in_channels;  // with the padding
  for (std::size_t a = 0; a < 3; ++a) floats *= c.in[a] + c.pad_before[a] + c.pad_after[a];
  return p.kind == PoolKind::max && p.in == c.out() && p.channels == c.out_channels && p.window == p.stride &&
         c.stride == one && c.dilation == one && c.in[0] == 1 && c.kernel[0] == 1 && p.window[0] == 1 &&
         c.pad_before[0] == 0 && c.pad_after[0] == 0 && product(p.window) <= 255 &&
         (is_unpadded_line(c) || floats <= kMostSample);
}

namespace {

/// Bytes of the L1 cache.
long nearest_cache() {
  constexpr long common = 32 * 1024;
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const long size = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);  // 0 or -1 where the system does not know it
  return std::clamp(size, common, 2 * common);
#else
  return common;
#endif
}

fused::Geometry make_geometry(const ConvGeometry& c, const PoolGeometry& p, long lanes) {
  const auto whole = [lanes](long n) { return (n + lanes - 1) / lanes * lanes; };
  fused::Geometry g{};
  g.in_channels = c.in_channels;
  g.out_channels = c.out_channels;
  g.kernel_lines = c.kernel[1], g.kernel = c.kernel[2];
  g.window_lines = p.window[1], g.window = p.window[2];
  g.in_lines = c.in[1] + c.pad_before[1] + c.pad_after[1];
  g.in = c.in[2] + c.pad_before[2] + c.pad_after[2];
  g.window_rows = p.out()[1], g.windows = p.out()[2];
  g.line = g.in * g.in_channels;
  g.run = g.kernel * g.in_channels;
  g.padded_run = whole(g.run);
  g.padded_out = whole(g.out_channels);
  g.field = g.kernel_lines * g.run;
  g.padded_field = g.kernel_lines * g.padded_run;
  g.positions = g.window_lines * g.window;
  for (long position = 0; position < g.positions; ++position)
    g.input_offset[position] = position / g.window * g.line + position % g.window * g.in_channels;
  // Few vectors have several sums, each of its share of a chunk: so the order of their sums follows from the chunk, and
  // may not follow from the cache.
  constexpr long several_vectors = 8, common = 24 * 1024;
  const long input_bytes = g.padded_run >= several_vectors * lanes ? nearest_cache() - 8 * 1024 : common;
  const long input_floats = input_bytes / static_cast<long>(sizeof(float));
  const long of_window = g.window * g.in_channels * (g.window_lines + g.kernel_lines - 1);
  const long most = std::clamp(input_floats / of_window, 8L, 64L);
  const long chunks = (g.windows + most - 1) / most;
  g.chunk = (g.windows + chunks - 1) / chunks;
  return g;
}

/// The convolution as backward sees it: input channels are filled up to whole vectors where that adds little, so that
/// no vector that it loads lies across two cache lines.
ConvGeometry with_whole_vectors(ConvGeometry conv, long lanes) {
  const Index whole = (conv.in_channels + lanes - 1) / lanes * lanes;
  const bool small = conv.kernel[1] * conv.kernel[2] * conv.in_channels <= fused::max_first_field;
  if (!small && 10 * whole <= 11 * conv.in_channels) conv.in_channels = whole;
  return conv;
}

/// One thread's scratch for backward, and for forward.
class ThreadScratch {
 public:
  /// g: backward's. Forward needs `forward` floats for its products, and `padded` for a sample with its padding.
  ThreadScratch(const fused::Geometry& g, long lanes, long forward, long padded)
      : floats_(make_arena(whole_lines(g.padded_out) + whole_lines(entries(g) + lanes) + whole_lines(padded) +
                           whole_lines(input(g) + lanes) + whole_lines(std::max(input(g) + lanes, forward)) +
                           whole_lines(g.chunk * g.field * 4))),
        entries_(static_cast<std::size_t>(g.out_channels * g.chunk)),
        ints_(static_cast<std::size_t>(g.padded_out + groups(g) + 2 * (entries(g) + lanes) + g.out_channels)) {
    float* f = floats_.span().data();
    const auto take = [&f](long count) { return std::exchange(f, f + whole_lines(count)); };
    s_.gradient = take(g.padded_out);
    s_.candidates = take(g.chunk * g.field * 4);
    s_.value = take(entries(g) + lanes);
    s_.x = take(input(g) + lanes);
    padded_ = take(padded);
    s_.dx = take(std::max(input(g) + lanes, forward));
    int* i = ints_.data();
    const auto take_int = [&i](long count) { return std::exchange(i, i + count); };
    s_.code = take_int(g.padded_out);
    s_.group_begin = take_int(groups(g));
    s_.channel = take_int(entries(g) + lanes);
    s_.offset = take_int(entries(g) + lanes);
    s_.channel_end = take_int(g.out_channels);
    s_.channel_entry = entries_.data();
  }
  /// Without dw and db: those of the part of the samples under way.
  const fused::Scratch& get() const { return s_; }
  /// For forward's sample with its padding, which is zero at first.
  float* padded() const { return padded_; }

 private:
  static long input(const fused::Geometry& g) { return g.in_lines * g.line; }
  static long entries(const fused::Geometry& g) { return g.chunk * g.padded_out; }
  static long groups(const fused::Geometry& g) { return g.chunk * g.positions + 1; }

  Arena floats_;
  std::vector<fused::ChannelEntry> entries_;
  std::vector<int> ints_;
  fused::Scratch s_{};
  float* padded_ = nullptr;
};

class FusedConvPool final : public ConvPoolOp {
 public:
  FusedConvPool(const fused::Kernels& kernels, bool winograd, const ConvGeometry& conv, const PoolGeometry& pool)
      : kernels_(kernels),
        pack_(winograd ? kernels.pack_winograd : kernels.pack_forward),
        forward_(winograd ? kernels.forward_winograd : kernels.forward),
        conv_(conv),
        g_(make_geometry(conv, pool, kernels_.lanes)),
        wide_(make_geometry(with_whole_vectors(conv, kernels_.lanes), pool, kernels_.lanes)),
        in_(product(conv.in) * conv.in_channels),
        padded_(in_ < g_.in_lines * g_.line),
        packed_forward_(make_arena(g_.padded_out * ((winograd ? (g_.kernel + 3) * g_.in_channels : g_.field) + 1))),
        wide_weights_(make_arena(is_wide() ? wide_.out_channels * wide_.field : 0)),
        packed_backward_(make_arena(wide_.out_channels * wide_.padded_field)),
        parts_(sum_parts(omp_get_max_threads(), gradient_floats())),
        gradients_(make_arena(parts_ * gradient_floats())) {
    const long floats = winograd ? kernels_.winograd_floats(g_) : 0, padded = padded_ ? g_.in_lines * g_.line : 0;
    for (int t = 0; t < omp_get_max_threads(); ++t) scratch_.emplace_back(wide_, kernels_.lanes, floats, padded);
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    pack_(g_, w.data(), b.data(), packed_forward_.span().data());
    const long out = g_.window_rows * g_.windows * g_.out_channels;
    share_out(x.shape.n, threads(), [&](Index n, Index end, int thread) {
      for (; n < end; ++n) {
        const ThreadScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
        const float* sample = x.data.data() + n * in_;
        if (padded_) sample = with_padding(g_, sample, scratch.padded());
        forward_(g_, {packed_forward_.span().data(), sample, y.data.data() + n * out,
                      winner.empty() ? nullptr : winner.data() + n * out, scratch.get().dx});
      }
    });
  }

  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                Span dw, Span db, Tensor dx) override {
    const long out = g_.window_rows * g_.windows * g_.out_channels, rows = x.shape.n;
    const Index parts = std::min<Index>(parts_, rows);
    const bool with_dx = !dx.data.empty();
    float* packed = with_dx ? packed_backward_.span().data() : nullptr;
    if (with_dx) kernels_.pack_backward(wide_, is_wide() ? widened(w) : w.data(), packed);
    SharedLoop loop(parts, threads()), sums(g_.out_channels, threads());
#pragma omp parallel num_threads(threads())
    {
      const int thread = omp_get_thread_num();
      fused::Scratch s = scratch_[static_cast<std::size_t>(thread)].get();
      loop.work(thread, [&](Index part, Index next) {
        s.dw = weight_gradient(part), s.db = bias_gradient(part);
        std::fill_n(s.dw, gradient_floats(), 0.0F);
        for (long n = rows * part / parts; n < rows * next / parts; ++n) {
          const float* sample = x.data.data() + n * in_;
          if (padded_ || is_wide())
            sample = with_padding(wide_, sample, s.x);
          else if ((rows - 1 - n) * in_ < kernels_.lanes)  // what is read past the end is past the samples
            sample = std::copy_n(sample, in_, s.x) - in_;
          kernels_.backward(
              wide_,
              {packed, sample, y.data.data() + n * out, dy.data.data() + n * out, winner.data() + n * out, with_dx}, s);
          if (with_dx) without_padding(s.dx, dx.data.data() + n * in_);
        }
      });
#pragma omp barrier
      sums.work(thread, [&](Index o, Index end) {
        for (; o < end; ++o) add_parts(parts, o, dw.data() + o * g_.field, db[static_cast<std::size_t>(o)]);
      });
    }
  }

 private:
  /// Floats of one part's gradient, in whole cache lines.
  Index gradient_floats() const { return whole_lines(wide_.out_channels * wide_.padded_field + wide_.padded_out); }
  float* weight_gradient(Index part) { return gradients_.span().data() + part * gradient_floats(); }
  float* bias_gradient(Index part) { return weight_gradient(part) + wide_.out_channels * wide_.padded_field; }
  bool is_wide() const { return wide_.in_channels > g_.in_channels; }

  /// copy(sample's, padded form's) for the lines of a sample that it has in both.
  template <class Copy>
  void for_lines(const fused::Geometry& padded, const Copy& copy) const {
    const Index first = conv_.pad_before[1] * padded.line + conv_.pad_before[2] * padded.in_channels;
    for (Index i = 0; i < conv_.in[1]; ++i) copy(i * conv_.in[2] * conv_.in_channels, first + i * padded.line);
  }
  /// The sample with zeros around it, and behind its channels, which are in `to` already.
  const float* with_padding(const fused::Geometry& padded, const float* sample, float* to) const {
    for_lines(padded, [&](Index at, Index there) {
      kernels_.copy_positions(conv_.in[2], conv_.in_channels, sample + at, conv_.in_channels, to + there,
                              padded.in_channels);
    });
    return to;
  }
  void without_padding(const float* from, float* sample) const {
    for_lines(wide_, [&](Index at, Index there) {
      kernels_.copy_positions(conv_.in[2], conv_.in_channels, from + there, wide_.in_channels, sample + at,
                              conv_.in_channels);
    });
  }
  /// The weights as those of backward's convolution.
  const float* widened(ConstSpan w) {
    float* const to = wide_weights_.span().data();
    for (Index tap = 0; tap < std::ssize(w) / g_.in_channels; ++tap)
      std::copy_n(w.data() + tap * g_.in_channels, g_.in_channels, to + tap * wide_.in_channels);
    return to;
  }
  int threads() const { return static_cast<int>(scratch_.size()); }

  /// Sums over the parts of the samples, in their order.
  void add_parts(Index parts, long o, float* dw, float& db) {
    std::fill_n(dw, g_.field, 0.0F);
    db = 0;
    for (Index part = 0; part < parts; ++part) {
      const float* from = weight_gradient(part) + o * wide_.padded_field;
      for (long line = 0; line < g_.kernel_lines; ++line)
        for (long k = 0; k < g_.kernel; ++k)
          for (long c = 0; c < g_.in_channels; ++c)
            dw[line * g_.run + k * g_.in_channels + c] += from[line * wide_.padded_run + k * wide_.in_channels + c];
      db += bias_gradient(part)[o];
    }
  }

  const fused::Kernels& kernels_;
  decltype(fused::Kernels::pack_forward) pack_;
  decltype(fused::Kernels::forward) forward_;
  ConvGeometry conv_;
  fused::Geometry g_, wide_;  // forward's and backward's
  long in_;                   // floats of a sample
  bool padded_;               // the convolution has padding
  Arena packed_forward_, wide_weights_, packed_backward_;
  Index parts_;      // parts of the mini-batch, each with a gradient of its own
  Arena gradients_;  // per part: weights, then bias
  std::vector<ThreadScratch> scratch_;
};

}  // namespace

std::unique_ptr<ConvPoolOp> make_fused_conv_pool(FusedKernels kernels, const ConvGeometry& conv,
                                                 const PoolGeometry& pool) {
  const fused::Kernels& of_set = kernels_for(kernels);
  const bool winograd = kernels.products == FusedKernels::Products::winograd;
  if (winograd && !of_set.winograd_serves(make_geometry(conv, pool, of_set.lanes))) return nullptr;
  return std::make_unique<FusedConvPool>(of_set, winograd, conv, pool);
}

}  // namespace mrmf::cpu
