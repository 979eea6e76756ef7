// Below AVX-512 oneDNN's weight gradients go row by row: each adds its share to all weights, which then pass through
// the caches once for every row. Where a row has few positions that takes most of the time. Here every tap of the
// kernel has a matrix product of its own over all rows, and writes its weights once. Taps on padding cost nothing.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {
namespace {

using cpu::Tap;
using cpu::TapPair;

class TapGradients final : public WeightedOp {
 public:
  TapGradients(const ConvGeometry& g, Index max_rows, int threads, std::unique_ptr<WeightedOp> conv)
      : conv_(std::move(conv)),
        taps_(cpu::taps_of(g)),
        threads_(threads),
        in_(g.in_channels),
        out_(g.out_channels),
        in_positions_(product(g.in)),
        out_positions_(product(g.out())) {
    Index most = 1;  // pairs of positions that a tap joins in a row
    for (const Tap& tap : taps_) most = std::max(most, std::ssize(tap.pairs));
    const Index each = in_ + std::min(out_, kPiece);
    rows_at_once_ = std::clamp(kGathered / (most * each), Index{1}, max_rows);
    gathered_floats_ = rows_at_once_ * most * each;
  }

  void prepare(Index rows) override {
    conv_->prepare(rows);
    allocate();
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { conv_->forward(x, w, b, y); }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override { conv_->backward_data(dy, w, dx); }

  // Each piece of work is a tap and some of the output's channels. No two write the same weight.
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    allocate();
    const Index taps = std::ssize(taps_), pieces = (out_ + kPiece - 1) / kPiece;
    const cpu::ThreadScope scope(threads_);
    std::atomic<dnnl_status_t> status = dnnl_success;
#pragma omp parallel
    {
      const Span gathered = gathered_[static_cast<std::size_t>(omp_get_thread_num())].span();
#pragma omp for schedule(dynamic)
      for (Index work = 0; work < taps * pieces; ++work) {
        const Index first = work % pieces * kPiece;
        const Slice channels{first, std::min(kPiece, out_ - first)};
        const dnnl_status_t done =
            gradient_of(taps_[static_cast<std::size_t>(work / pieces)], channels, {x, dy}, dw, gathered.data());
        if (done != dnnl_success) status = done;
      }
      if (!db.empty()) {
#pragma omp for schedule(static)
        for (Index first = 0; first < out_; first += kPiece)
          sum_positions({first, std::min(kPiece, out_ - first)}, dy, db);
      }
    }
    dnnl::error::wrap_c_api(status, "oneDNN failed in a matrix product");
  }

 private:
  static constexpr Index kPiece = 64, kGathered = Index{1} << 17;  // floats
  /// Some of the output's channels, or of the rows.
  struct Slice {
    Index first = 0, count = 0;
  };
  struct Tensors {
    ConstTensor x, dy;
  };
  /// Weights of the tap, and the distance from one output channel's to the next.
  struct Target {
    float* gradient = nullptr;
    Index pitch = 0;
  };

  void allocate() {
    while (std::ssize(gathered_) < threads_) gathered_.push_back(cpu::make_arena(gathered_floats_));
  }

  dnnl_status_t gradient_of(const Tap& tap, const Slice& channels, const Tensors& t, Span dw, float* gathered) const {
    const Index pitch = std::ssize(taps_) * in_;
    const Target to{dw.data() + channels.first * pitch + tap.number * in_, pitch};
    if (tap.pairs.empty()) {
      for (Index o = 0; o < channels.count; ++o) std::fill_n(to.gradient + o * pitch, in_, 0.0F);
      return dnnl_success;
    }
    dnnl_status_t status = dnnl_success;
    for (Index first = 0; first < t.x.shape.n && status == dnnl_success; first += rows_at_once_)
      status = add_rows(tap, channels, t, {first, std::min(rows_at_once_, t.x.shape.n - first)}, to, gathered);
    return status;
  }

  // Brings the positions that the tap joins, of some rows, one after another: then their gradient is one product. The
  // first rows' is written, that of others added.
  dnnl_status_t add_rows(const Tap& tap, const Slice& channels, const Tensors& t, const Slice& rows, const Target& to,
                         float* gathered) const {
    const Index joined = rows.count * std::ssize(tap.pairs);
    float* const dy = gathered + joined * in_;
    float *to_x = gathered, *to_dy = dy;
    for (Index n = rows.first; n < rows.first + rows.count; ++n)
      for (const TapPair& m : tap.pairs) {
        to_x = std::copy_n(t.x.data.data() + (n * in_positions_ + m.in) * in_, in_, to_x);
        const float* const from = t.dy.data.data() + (n * out_positions_ + m.out) * out_ + channels.first;
        to_dy = std::copy_n(from, channels.count, to_dy);
      }
    return dnnl_sgemm('T', 'N', channels.count, in_, joined, 1.0F, dy, channels.count, gathered, in_,
                      rows.first == 0 ? 0.0F : 1.0F, to.gradient, to.pitch);
  }

  void sum_positions(const Slice& channels, ConstTensor dy, Span db) const {
    float* const sums = db.data() + channels.first;
    std::fill_n(sums, channels.count, 0.0F);
    for (Index p = 0; p < dy.shape.n * out_positions_; ++p) {
      const float* const from = dy.data.data() + p * out_ + channels.first;
      for (Index o = 0; o < channels.count; ++o) sums[o] += from[o];
    }
  }

  std::unique_ptr<WeightedOp> conv_;
  std::vector<Tap> taps_;  // in their order
  int threads_;
  Index in_, out_, in_positions_, out_positions_;
  Index rows_at_once_ = 1, gathered_floats_ = 0;
  std::vector<Arena> gathered_;  // for each thread: x and dy at the positions that a tap joins
};

}  // namespace

std::unique_ptr<WeightedOp> with_tap_gradients(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                               Index max_rows, int threads) {
  return std::make_unique<TapGradients>(geometry, max_rows, threads, std::move(conv));
}

}  // namespace mrmf::onednn
