// Convolutions by oneDNN's matrix product (gemm) in place of its primitives: transposed ones, and weight gradients tap
// by tap.
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <dnnl.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/channel_and_sgd_loops.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {

// Transposed convolutions whose windows neither overlap nor leave gaps: each position of x makes a patch of y of its
// own, a product of matrices, whose rows are then put where the patches lie.

namespace {

/// y's patches under positions of x in a row: (positions, taps, channels of y).
class Patches {
 public:
  explicit Patches(const ConvGeometry& g) : kernel_(g.kernel), of_(g.out()), channels_(g.in_channels) {}

  /// Writes patches [first, last), counted over all samples, into y.
  void put(Index first, Index last, float* rows, const float* bias, Tensor y) const {
    const Index stride = y.stride(), channels = channels_;
    for_lines(first, last, rows, [&](const float* from, Index position) {
      float* to = y.data.data() + position * stride;
      for (Index tap = 0; tap < kernel_[2]; ++tap, from += channels, to += stride)
        cpu::for_channels(
            channels, [&](Index c) { cpu::eight(to + c) = cpu::eight(from + c) + cpu::eight(bias + c); },
            [&](Index c) { to[c] = from[c] + bias[c]; });
    });
  }
  /// Reads them from dy, and adds their sums per channel to `sums` unless that is null.
  void get(Index first, Index last, ConstTensor dy, float* rows, double* sums) const {
    const Index stride = dy.stride(), channels = channels_;
    for_lines(first, last, rows, [&](float* to, Index position) {
      const float* from = dy.data.data() + position * stride;
      for (Index tap = 0; tap < kernel_[2]; ++tap, from += stride, to += channels) {
        cpu::for_channels(
            channels, [&](Index c) { cpu::eight(to + c) = cpu::eight(from + c); }, [&](Index c) { to[c] = from[c]; });
        if (sums != nullptr) add_to(sums, from, channels);
      }
    });
  }

 private:
  static void add_to(double* sums, const float* values, Index channels) {
    cpu::for_channels(
        channels,
        [&](Index c) {
          *reinterpret_cast<cpu::EightDoubles*>(sums + c) +=
              __builtin_convertvector(cpu::eight(values + c), cpu::EightDoubles);
        },
        [&](Index c) { sums[c] += double{values[c]}; });
  }
  /// body(the patch's taps along the last axis, the first of their positions in y) for each such line of each patch.
  template <class Body>
  void for_lines(Index first, Index last, float* rows, const Body& body) const {
    cpu::vectorised([&] {
      float* row = rows;
      for (Index p = first; p < last; ++p) {
        const Index k = p % of_[2], j = p / of_[2] % of_[1], i = p / (of_[2] * of_[1]);  // i: over all samples
        for (Index a = 0; a < kernel_[0]; ++a)
          for (Index b = 0; b < kernel_[1]; ++b, row += kernel_[2] * channels_)
            body(row, ((i * kernel_[0] + a) * of_[1] * kernel_[1] + j * kernel_[1] + b) * of_[2] * kernel_[2] +
                          k * kernel_[2]);
      }
    });
  }

  Extent kernel_, of_;  // of_: positions of x
  Index channels_;
};

/// C = A B + beta C, row-major; A or B transposed where said so.
struct Product {
  char transpose_a, transpose_b;
  Index rows, columns, depth;
  float beta;
  /// Whether it was done: oneDNN may find no memory for its copies.
  bool operator()(const float* a, const float* b, float* c) const {
    return dnnl_sgemm(transpose_a, transpose_b, rows, columns, depth, 1.0F, a, transpose_a == 'N' ? depth : rows, b,
                      transpose_b == 'N' ? columns : depth, beta, c, columns) == dnnl_success;
  }
};

class PatchConvTranspose final : public WeightedOp {
 public:
  PatchConvTranspose(const ConvGeometry& g, cpu::SharedWorkspace memory)
      : in_(g.out()),
        depth_(g.out_channels),
        width_(product(g.kernel) * g.in_channels),
        piece_(std::max<Index>(16, piece_floats / width_)),
        patches_(g),
        memory_(std::move(memory)),
        threads_(static_cast<std::size_t>(memory_->threads())) {
    for (Thread& thread : threads_) thread.db.resize(static_cast<std::size_t>(g.in_channels));
  }

  bool accepts_slices() const override { return true; }
  void prepare(Index) override { memory_->reserve(0, cpu::whole_lines(piece_ * width_) + depth_ * width_); }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    for_pieces(x.shape.n, [&](Index first, Index last, Thread& own) {
      const Product product{'N', 'N', last - first, width_, depth_, 0.0F};
      const bool done = product(x.data.data() + first * depth_, w.data(), own.rows);
      patches_.put(first, last, own.rows, b.data(), y);
      return done;
    });
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    for_pieces(dy.shape.n, [&](Index first, Index last, Thread& own) {
      patches_.get(first, last, dy, own.rows, nullptr);
      const Product product{'N', 'T', last - first, depth_, width_, 0.0F};
      return product(own.rows, w.data(), dx.data.data() + first * depth_);
    });
  }

  /// The threads' sums, added in the threads' order.
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    for_pieces(dy.shape.n, [&](Index first, Index last, Thread& own) {
      if (!own.begun) std::ranges::fill(own.db, 0.0);
      patches_.get(first, last, dy, own.rows, own.db.data());
      const Product product{'T', 'N', depth_, width_, last - first, own.begun ? 1.0F : 0.0F};
      own.begun = true;
      return product(x.data.data() + first * depth_, own.rows, own.dw);
    });
    const auto weights = static_cast<Index>(dw.size());
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < weights; ++i) {
      float sum = 0;
      for (const Thread& thread : threads_)
        if (thread.begun) sum += thread.dw[i];
      dw[static_cast<std::size_t>(i)] = sum;
    }
    for (std::size_t c = 0; c < db.size(); ++c) {
      double sum = 0;
      for (const Thread& thread : threads_)
        if (thread.begun) sum += thread.db[c];
      db[c] = static_cast<float>(sum);
    }
  }

 private:
  static constexpr Index piece_floats = 32768;  // a piece of the patches stays in the L2 cache

  struct Thread {
    float *rows = nullptr, *dw = nullptr;  // in the workspace, from its first piece on
    std::vector<double> db;
    bool begun = false;  // it has a part of the gradients
  };

  /// body(first, last, thread): positions of x, counted over all samples; false: it could not be done.
  template <class Body>
  void for_pieces(Index rows, const Body& body) {
    const Index positions = rows * product(in_), pieces = (positions + piece_ - 1) / piece_;
    prepare(rows);
    for (Thread& thread : threads_) thread.rows = nullptr, thread.begun = false;
    bool done = true;
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(threads_.size())) reduction(&& : done)
    for (Index i = 0; i < pieces; ++i) {
      const int number = omp_get_thread_num();
      Thread& own = threads_[static_cast<std::size_t>(number)];
      if (own.rows == nullptr)
        own.rows = memory_->of_thread(number), own.dw = own.rows + cpu::whole_lines(piece_ * width_);
      done = body(i * piece_, std::min(positions, (i + 1) * piece_), own) && done;
    }
    MRMF_CHECK(done, "oneDNN's product of matrices");
  }

  Extent in_;            // positions of x
  Index depth_, width_;  // x's channels; a patch's floats
  Index piece_;          // positions of x that are taken at a time
  Patches patches_;
  cpu::SharedWorkspace memory_;
  std::vector<Thread> threads_;
};

/// Whether the windows tile y.
bool tiles(const ConvGeometry& g) {
  const Extent none{0, 0, 0}, out = g.out();
  bool whole = g.kernel == g.stride && g.pad_before == none && g.pad_after == none;
  for (std::size_t a = 0; a < 3; ++a) whole = whole && g.dilation[a] == 1 && out[a] * g.kernel[a] == g.in[a];
  return whole;
}

}  // namespace

std::unique_ptr<WeightedOp> make_patch_conv_transpose(const ConvGeometry& geometry, cpu::SharedWorkspace memory) {
  if (!tiles(geometry)) return nullptr;
  return std::make_unique<PatchConvTranspose>(geometry, std::move(memory));
}

// Below AVX-512 oneDNN's weight gradients go row by row: each adds its share to all weights, which then pass through
// the caches once for every row. Where a row has few positions that takes most of the time. Here every tap of the
// kernel has a matrix product of its own over all rows, and writes its weights once. Taps on padding cost nothing.

namespace {

using cpu::Tap;
using cpu::TapPair;

class TapGradients final : public WeightedOp {
 public:
  TapGradients(const ConvGeometry& g, Index max_rows, std::unique_ptr<WeightedOp> conv, cpu::SharedWorkspace memory)
      : conv_(std::move(conv)),
        memory_(std::move(memory)),
        taps_(cpu::taps_of(g)),
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
    if (conv_ != nullptr) conv_->prepare(rows);
    memory_->reserve(0, gathered_floats_);
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { conv_->forward(x, w, b, y); }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override { conv_->backward_data(dy, w, dx); }

  // Each piece of work is a tap and some of the output's channels. No two write the same weight.
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    memory_->reserve(0, gathered_floats_);
    const Index taps = std::ssize(taps_), pieces = (out_ + kPiece - 1) / kPiece;
    const cpu::ThreadScope scope(memory_->threads());
    std::atomic<dnnl_status_t> status = dnnl_success;
#pragma omp parallel
    {
      float* const gathered = memory_->of_thread(omp_get_thread_num());  // x and dy at the positions that a tap joins
#pragma omp for schedule(dynamic)
      for (Index work = 0; work < taps * pieces; ++work) {
        const Index first = work % pieces * kPiece;
        const Slice channels{first, std::min(kPiece, out_ - first)};
        const dnnl_status_t done =
            gradient_of(taps_[static_cast<std::size_t>(work / pieces)], channels, {x, dy}, dw, gathered);
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
  cpu::SharedWorkspace memory_;
  std::vector<Tap> taps_;  // in their order
  Index in_, out_, in_positions_, out_positions_;
  Index rows_at_once_ = 1, gathered_floats_ = 0;
};

}  // namespace

std::unique_ptr<WeightedOp> with_tap_gradients(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                               Index max_rows, cpu::SharedWorkspace memory) {
  return std::make_unique<TapGradients>(geometry, max_rows, std::move(conv), std::move(memory));
}

// A convolution of many weights and few positions takes as long as its weights take to be read. oneDNN's primitives
// bring them into a layout of their own first, which takes several times as long. Here they are read as they lie. Where
// positions are very few, each thread has some channels, and reads their weights once, tap by tap. Else it has some
// rows of the batch, in one product of all weights with all that they meet.

namespace {

class TapProducts final : public WeightedOp {
 public:
  TapProducts(const ConvGeometry& g, Index max_rows, const cpu::SharedWorkspace& memory)
      : memory_(memory),
        taps_(cpu::taps_of(g)),
        in_(g.in_channels),
        out_(g.out_channels),
        in_positions_(product(g.in)),
        out_positions_(product(g.out())),
        gradients_(g, max_rows, nullptr, memory) {
    constexpr Index few = 128;  // positions of a thread
    const Index threads = memory_->threads();
    by_rows_ = max_rows >= threads && max_rows * out_positions_ >= few * threads;
    const Index rows = (max_rows + threads - 1) / threads;  // of a thread
    const Index by_channels = 2 * max_rows * std::min(in_positions_, out_positions_) * std::max(in_, out_);
    gathered_floats_ = by_rows_ ? rows * out_positions_ * std::ssize(taps_) * in_ : by_channels;
  }

  void prepare(Index rows) override {
    gradients_.prepare(rows);
    memory_->reserve(0, gathered_floats_);
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    if (by_rows_) return forward_by_rows(x, w, b, y);
    const Pass pass{x.data.data(), y.data.data(), in_, out_, 'T', x.shape.n};
    for_shares(out_, kLine, [&](Index first, Index last, float* gathered) {
      const Index count = last - first;
      for (Index p = 0; p < y.shape.n * out_positions_; ++p)
        for (Index o = 0; o < count; ++o)
          pass.to[p * out_ + first + o] = b.empty() ? 0.0F : b[static_cast<std::size_t>(first + o)];
      return for_taps(pass, w.data() + first * std::ssize(taps_) * in_, {first, count}, gathered);
    });
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    if (by_rows_) return data_by_rows(dy, w, dx);
    const Pass pass{dy.data.data(), dx.data.data(), out_, in_, 'N', dy.shape.n};
    for_shares(in_, kLine, [&](Index first, Index last, float* gathered) {
      const Index count = last - first;
      for (Index p = 0; p < dx.shape.n * in_positions_; ++p) std::fill_n(pass.to + p * in_ + first, count, 0.0F);
      return for_taps(pass, w.data() + first, {first, count}, gathered);
    });
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    gradients_.backward_weights(x, dy, dw, db);
  }

 private:
  static constexpr Index kLine = 16;  // floats
  struct Channels {
    Index first, count;
  };
  /// What is read, and what is added to: of so many channels. transpose: whether rows of the weights are `to`'s.
  struct Pass {
    const float* from;
    float* to;
    Index from_channels, to_channels;
    char transpose;
    Index rows;
  };

  /// body(first, last, scratch) on each thread, which has whole units; what it returns is oneDNN's.
  template <class Body>
  void for_shares(Index all, Index unit, const Body& body) {
    const Index units = (all + unit - 1) / unit, threads = memory_->threads();
    memory_->reserve(0, gathered_floats_);
    std::atomic<dnnl_status_t> status = dnnl_success;
    const cpu::ThreadScope scope(memory_->threads());
#pragma omp parallel for schedule(static)
    for (Index t = 0; t < threads; ++t) {
      const Index first = units * t / threads * unit, last = std::min(all, units * (t + 1) / threads * unit);
      if (first >= last) continue;
      const dnnl_status_t done = body(first, last, memory_->of_thread(omp_get_thread_num()));
      if (done != dnnl_success) status = done;
    }
    dnnl::error::wrap_c_api(status, "oneDNN failed in a matrix product");
  }
  /// Calls body(float of x or dx, float of the scratch) where the input channels begin that each tap joins.
  template <class Body>
  void for_joined(Index first, Index last, const Body& body) const {
    const Index depth = std::ssize(taps_) * in_;
    for (Index n = first; n < last; ++n)
      for (const Tap& tap : taps_)
        for (const TapPair& m : tap.pairs)
          body((n * in_positions_ + m.in) * in_, ((n - first) * out_positions_ + m.out) * depth + tap.number * in_);
  }
  void forward_by_rows(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) {
    const Index depth = std::ssize(taps_) * in_;
    for_shares(x.shape.n, 1, [&](Index first, Index last, float* fields) {
      const Index positions = (last - first) * out_positions_;
      std::fill_n(fields, positions * depth, 0.0F);  // padding's
      for_joined(first, last, [&](Index from, Index to) { std::copy_n(x.data.data() + from, in_, fields + to); });
      float* const sums = y.data.data() + first * out_positions_ * out_;
      const dnnl_status_t done =
          dnnl_sgemm('N', 'T', positions, out_, depth, 1.0F, fields, depth, w.data(), depth, 0.0F, sums, out_);
      for (Index i = 0; !b.empty() && i < positions * out_; ++i) sums[i] += b[static_cast<std::size_t>(i % out_)];
      return done;
    });
  }
  void data_by_rows(ConstTensor dy, ConstSpan w, Tensor dx) {
    const Index depth = std::ssize(taps_) * in_;
    for_shares(dy.shape.n, 1, [&](Index first, Index last, float* fields) {
      float* const to = dx.data.data();
      std::fill_n(to + first * in_positions_ * in_, (last - first) * in_positions_ * in_, 0.0F);
      const float* const from = dy.data.data() + first * out_positions_ * out_;
      const dnnl_status_t done = dnnl_sgemm('N', 'N', (last - first) * out_positions_, depth, out_, 1.0F, from, out_,
                                            w.data(), depth, 0.0F, fields, depth);
      for_joined(first, last, [&](Index at, Index field) {
        for (Index c = 0; c < in_; ++c) to[at + c] += fields[field + c];
      });
      return done;
    });
  }

  /// w: the weights of the first tap and the first of `to`'s channels.
  dnnl_status_t for_taps(const Pass& pass, const float* w, const Channels& of, float* gathered) const {
    const bool forward = pass.transpose == 'T';
    const Index from_positions = forward ? in_positions_ : out_positions_;
    const Index to_positions = forward ? out_positions_ : in_positions_, pitch = std::ssize(taps_) * in_;
    for (const Tap& tap : taps_) {
      const Index joined = pass.rows * std::ssize(tap.pairs);
      if (joined == 0) continue;
      float *at = gathered, *const sums = gathered + joined * pass.from_channels;
      for (Index n = 0; n < pass.rows; ++n)
        for (const TapPair& m : tap.pairs)
          at = std::copy_n(pass.from + (n * from_positions + (forward ? m.in : m.out)) * pass.from_channels,
                           pass.from_channels, at);
      const dnnl_status_t done = dnnl_sgemm('N', pass.transpose, joined, of.count, pass.from_channels, 1.0F, gathered,
                                            pass.from_channels, w + tap.number * in_, pitch, 0.0F, sums, of.count);
      if (done != dnnl_success) return done;
      const float* sum = sums;
      for (Index n = 0; n < pass.rows; ++n)
        for (const TapPair& m : tap.pairs) {
          float* const to = pass.to + (n * to_positions + (forward ? m.out : m.in)) * pass.to_channels + of.first;
          for (Index c = 0; c < of.count; ++c) to[c] += *sum++;
        }
    }
    return dnnl_success;
  }

  cpu::SharedWorkspace memory_;
  std::vector<Tap> taps_;
  Index in_, out_, in_positions_, out_positions_;
  TapGradients gradients_;
  bool by_rows_ = false;
  Index gathered_floats_ = 0;  // of a thread: what a tap reads, and its products; or all that the weights meet
};

}  // namespace

std::unique_ptr<WeightedOp> make_tap_conv(const ConvGeometry& geometry, Index max_rows,
                                          const cpu::SharedWorkspace& memory) {
  constexpr Index most_positions = 1024, least_weights = Index{1} << 16;  // else packing takes no time beside products
  const Index positions = max_rows * std::max(product(geometry.in), product(geometry.out()));
  if (positions > 8 * most_positions || max_rows * product(geometry.out()) > most_positions) return nullptr;
  if (geometry.weights() < least_weights) return nullptr;
  return std::make_unique<TapProducts>(geometry, max_rows, memory);
}

}  // namespace mrmf::onednn
