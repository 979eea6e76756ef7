// Locally connected layers: a small matrix product for every output position. And what reconstruction ICA, which is
// made of them, has beside: its penalty, and rows of one length.
#include "kernels/cpu/locally_connected.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/channel_and_sgd_loops.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {

// Locally connected layers: a small matrix product for every output position (locally_connected.inl).
//
// The input under neighbouring positions is copied piece by piece (locally_connected.hpp), so that the rows of the
// batch lie side by side in the cache. Threads share out the output positions, and with them the weights. In the
// gradient of the input, where fields overlap, they share out the input instead: a thread computes the part of every
// field that lies in its band of positions. So no two write the same place, weights are read once, and results do not
// depend on the number of threads.

namespace {

const local::Kernels& local_kernels() {
  return *of_set(instruction_set(), local::generic_kernels, local::avx2_kernels, local::avx512_kernels)();
}

class LocallyConnected final : public LocallyConnectedOp {
 public:
  LocallyConnected(const ConvGeometry& geometry, Index max_rows)
      : kernels_(local_kernels()),
        pieces_(geometry, max_rows, kernels_.lanes),
        panels_(geometry, max_rows, kernels_),
        g_(geometry),
        features_(geometry.out_channels),
        max_rows_(std::max<Index>(1, max_rows)) {
    while (axis_ < 2 && g_.in[axis_] == 1) ++axis_;
    met_.assign(static_cast<std::size_t>(g_.in[axis_]) + 1, 0);
    for (Index o = 0; o < g_.out()[axis_]; ++o)
      for (Index k = 0; k < g_.kernel[axis_]; ++k) ++met_[static_cast<std::size_t>(o * g_.stride[axis_] + k) + 1];
    for (std::size_t i = 1; i < met_.size(); ++i) met_[i] += met_[i - 1];
    scratch_ = make_arena(threads_ * thread_floats());
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    if (panels_.serve(x.shape.n))
      return for_each_block(panels_.pieces(), [&](const LocalBlock& block, Scratch& scratch, int) {
        panels_.forward(block, x, w, b, scratch.x, y);
      });
    for_each_block(pieces_, [&](const LocalBlock& block, Scratch& scratch, int) {
      const Index rows = x.shape.n;
      pieces_.for_each_position(block, [&](Index position, Index index) {
        for (Index n = 0; n < rows; ++n)
          for (Index f = 0; f < features_; ++f)
            y_of(scratch.y, rows, index)[n * features_ + f] =
                b.empty() ? 0.0F : b[static_cast<std::size_t>(position * features_ + f)];
      });
      pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece& next) {
        if (pieces_.is_copied(piece)) copy_in(x, block, piece, scratch.x);
        const Scratch of = of_piece(scratch, rows, block, piece);
        kernels_.outputs(product(rows, piece, pieces_.weights_of(block, next, w.data())),
                         pieces_.weights_of(block, piece, w.data()), of.x, of.y);
      });
      pieces_.for_each_position(block, [&](Index position, Index index) {
        for (Index n = 0; n < rows; ++n)
          std::copy_n(y_of(scratch.y, rows, index) + n * features_, features_,
                      y.data.data() + n * outputs() + position * features_);
      });
    });
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
#pragma omp parallel num_threads(threads_)
    {
      const Interval band = band_of(omp_get_thread_num(), omp_get_num_threads());
      Scratch scratch = scratch_of(omp_get_thread_num());
      clear(band, dx);
      const bool in_panels = panels_.serve(dx.shape.n);
      const LocalPieces& pieces = in_panels ? panels_.pieces() : pieces_;
      for (Index i = 0; i < pieces.blocks(); ++i) {
        const LocalBlock block = pieces.block_of(i);
        const Index reach = axis_ == 1 ? pieces.input_rows(block) : g_.kernel[axis_];
        const Interval met{std::max<Index>(0, band.first - block.first[axis_]),
                           std::min(reach, band.end - block.first[axis_])};
        if (met.first >= met.end) continue;
        if (in_panels) {
          panels_.backward_data(block, axis_, met, dy, w, scratch.x, dx);
          continue;
        }
        copy_gradient(dy, block, scratch.y);
        if (pieces_.together() > 1)
          add_gradients(block, met, w, scratch, dx);
        else
          add_gradient(block, met, w, scratch, dx);
      }
    }
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override { gradient(x, dy, false, dw, db); }
  void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) override { gradient(x, dy, true, dw, {}); }

  // A piece's gradient is made in the thread's memory, and is gone when its weights have moved.
  void update(const StepContext& step, const GradientProduct& first, const GradientProduct* second,
              const UntiedWeights& weights) override {
    if (updates_.span().empty()) updates_ = make_arena(threads_ * update_floats());
    for_each_block(pieces_, [&](const LocalBlock& block, Scratch& scratch, int thread) {
      float* const dw = updates_.span().data() + thread * update_floats();
      Scratch other{dw + aligned_floats(pieces_.part() * pieces_.run() * features_), nullptr};
      other.y = other.x + field_floats();
      const Index rows = first.dy.shape.n;
      copy_gradient(first.dy, block, scratch.y);
      if (second != nullptr) copy_gradient(second->dy, block, other.y);
      update_biases(step, rows, block, scratch.y, weights);
      pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece&) {
        if (pieces_.is_copied(piece)) {
          copy_in(first.x, block, piece, scratch.x);
          if (second != nullptr) copy_in(second->x, block, piece, other.x);
        }
        const Scratch none{nullptr, nullptr};
        update_piece({piece, rows, pieces_.first_weight(block, piece)}, of_piece(scratch, rows, block, piece),
                     second == nullptr ? none : of_piece(other, rows, block, piece), step, weights, dw);
      });
    });
  }

 private:
  /// One thread's memory: runs of the rows' input, and a block's outputs or the gradient of these.
  struct Scratch {
    float *x, *y;
  };

  void gradient(ConstTensor x, ConstTensor dy, bool add, Span dw, Span db) {
    for_each_block(pieces_, [&](const LocalBlock& block, Scratch& scratch, int) {
      const Index rows = x.shape.n;
      copy_gradient(dy, block, scratch.y);
      pieces_.for_each_position(block, [&](Index position, Index index) {
        for (Index f = 0; f < features_ && !db.empty(); ++f)
          db[static_cast<std::size_t>(position * features_ + f)] = sum_of(rows, y_of(scratch.y, rows, index) + f);
      });
      pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece& next) {
        if (pieces_.is_copied(piece)) copy_in(x, block, piece, scratch.x);
        const Scratch of = of_piece(scratch, rows, block, piece);
        kernels_.weights(product(rows, piece, pieces_.weights_of(block, next, dw.data())), {.scale = 1, .add = add},
                         of.x, of.y, pieces_.weights_of(block, piece, dw.data()));
      });
    });
  }

  float sum_of(Index rows, const float* gradient) const {
    float sum = 0;
    for (Index n = 0; n < rows; ++n) sum += gradient[n * features_];
    return sum;
  }
  void update_biases(const StepContext& step, Index rows, const LocalBlock& block, const float* gradient,
                     const UntiedWeights& weights) const {
    if (weights.b.empty()) return;
    pieces_.for_each_position(block, [&](Index position, Index index) {
      for (Index f = 0; f < features_; ++f) {
        const Index at = position * features_ + f;
        const float db = sum_of(rows, y_of(gradient, rows, index) + f);
        float* const velocity = weights.b_velocity.empty() ? nullptr : weights.b_velocity.data() + at;
        vectorised([&, b = weights.b.data() + at] { sgd_range(step.sgd, b, &db, velocity, 1); });
      }
    });
  }
  /// A piece's weights, the first of them at `at`.
  struct PieceWeights {
    LocalPiece piece;
    Index rows, at;
  };
  // As many weights at once as leave their gradient in the first cache, beside the inputs of few rows. second.x may be
  // null.
  void update_piece(const PieceWeights& p, const Scratch& first, const Scratch& second, const StepContext& step,
                    const UntiedWeights& weights, float* dw) const {
    const Index cached = p.rows < LocalPieces::kFewRows ? 2048 : 8192,
                all = (p.piece.end - p.piece.first) * pieces_.run();
    const Index floats = std::min(all, cached), group = std::max<Index>(1, cached / floats);
    for (Index f = 0; f < features_; f += group)
      for (Index d = 0; d < all; d += floats) {
        const Index at = p.at + f * pieces_.depth() + d;
        local::Product of = product(p.rows, p.piece, weights.w.data() + at);
        of.features = std::min(group, features_ - f);  // `next` asks for these weights themselves: they move soon
        of.depth = std::min(floats, all - d);
        of.w_pitch = floats;
        kernels_.weights(of, {.scale = 1, .add = false}, first.x + d, first.y + f, dw);
        of.next = nullptr;
        if (second.x != nullptr) kernels_.weights(of, {.scale = 1, .add = true}, second.x + d, second.y + f, dw);
        move(step, of, dw, weights, at);
      }
  }
  void move(const StepContext& step, const local::Product& of, const float* dw, const UntiedWeights& weights,
            Index at) const {
    float* const velocity = weights.w_velocity.empty() ? nullptr : weights.w_velocity.data() + at;
    vectorised([&, w = weights.w.data() + at] {
      for (Index f = 0; f < of.features; ++f)
        sgd_range(step.sgd, w + f * pieces_.depth(), dw + f * of.w_pitch,
                  velocity == nullptr ? nullptr : velocity + f * pieces_.depth(), of.depth);
    });
  }

  static Index product(const Extent& e) { return mrmf::product(e); }
  local::Product product(Index rows, const LocalPiece& piece, const float* next) const {
    return {.rows = rows,
            .features = features_,
            .depth = (piece.end - piece.first) * pieces_.run(),
            .w_pitch = pieces_.depth(),
            .x_pitch = pieces_.pitch(),
            .y_pitch = features_,
            .next = rows < LocalPieces::kFewRows ? nullptr : next,
            .next_pitch = pieces_.depth()};
  }
  Index outputs() const { return pieces_.positions() * features_; }
  Index inputs() const { return product(g_.in) * g_.in_channels; }

  static Index aligned_floats(Index count) { return (count + 15) / 16 * 16; }
  Index field_floats() const {
    return aligned_floats(
        std::max(max_rows_ * pieces_.pitch(), std::min(LocalPieces::kFewRows, max_rows_) * pieces_.depth()));
  }
  Index block_floats() const {
    return field_floats() + aligned_floats(pieces_.lines() * pieces_.together() * max_rows_ * features_);
  }
  Index thread_floats() const { return std::max(block_floats(), aligned_floats(panels_.floats())); }
  Index update_floats() const { return aligned_floats(pieces_.part() * pieces_.run() * features_) + block_floats(); }
  Scratch scratch_of(int thread) {
    float* const first = scratch_.span().data() + thread * thread_floats();
    return {first, first + field_floats()};
  }

  template <class Use>
  void for_each_block(const LocalPieces& pieces, const Use& use) {
    share_out(pieces.blocks(), threads_, [&](Index i, Index end, int thread) {
      Scratch scratch = scratch_of(thread);
      for (; i < end; ++i) use(pieces.block_of(i), scratch, thread);
    });
  }
  /// What a block's y has of one of its positions: (rows, features).
  template <class Float>
  Float* y_of(Float* y, Index rows, Index index) const {
    return y + index * rows * features_;
  }

  /// Where a piece's input and its position's outputs are.
  Scratch of_piece(const Scratch& of_block, Index rows, const LocalBlock& block, const LocalPiece& piece) const {
    return {of_block.x + piece.column * pieces_.step(), y_of(of_block.y, rows, pieces_.index_of(block, piece))};
  }

  /// What a piece reads of every row: kernel rows of one position, or one row for a block's positions.
  void copy_in(ConstTensor x, const LocalBlock& block, const LocalPiece& piece, float* to) const {
    const Index one = pieces_.begin({piece.plane, piece.row, 0});
    kernels_.copy({.rows = x.shape.n,
                   .count = piece.end - piece.first,
                   .floats = pieces_.block_run(block),
                   .begins = pieces_.together() > 1 ? &one : pieces_.begins().data() + piece.first,
                   .x_pitch = inputs(),
                   .to_pitch = pieces_.pitch()},
                  x.data.data() + pieces_.begin(block.first), to);
  }
  void copy_gradient(ConstTensor dy, const LocalBlock& block, float* to) const {
    pieces_.for_each_position(block, [&](Index position, Index index) {
      for (Index n = 0; n < dy.shape.n; ++n)
        std::copy_n(dy.data.data() + n * outputs() + position * features_, features_,
                    y_of(to, dy.shape.n, index) + n * features_);
    });
  }

  /// A thread's share of the input's positions along the first axis that has several: as many fields meet each.
  Interval band_of(int thread, int threads) const {
    const auto cut = [&](int number) -> Index {
      if (number == threads) return g_.in[axis_];
      return std::ranges::lower_bound(met_, met_.back() * number / threads) - met_.begin();
    };
    return {cut(thread), cut(thread + 1)};
  }
  void clear(const Interval& band, Tensor dx) const {
    Index line = g_.in_channels;
    for (std::size_t a = axis_ + 1; a < 3; ++a) line *= g_.in[a];
    for (Index n = 0; n < dx.shape.n; ++n)
      std::fill_n(dx.data.data() + n * inputs() + band.first * line, (band.end - band.first) * line, 0.0F);
  }
  /// Adds the kernel's positions in `met` along axis_ of a field's gradient to dx: run by run or, of few rows, where
  /// reading weights takes the time, all together by way of memory of their own. The block is one position.
  void add_gradient(const LocalBlock& block, const Interval& met, ConstSpan w, const Scratch& scratch,
                    Tensor dx) const {
    const Index each = pieces_.depth() / g_.kernel[axis_], from = met.first * each,
                floats = (met.end - met.first) * each;
    const Index run_floats = std::min(pieces_.run(), floats), rows = dx.shape.n;
    const float* const weights = w.data() + block.position * features_ * pieces_.depth();
    local::Product product{.rows = rows,
                           .features = features_,
                           .depth = floats,
                           .w_pitch = pieces_.depth(),
                           .x_pitch = pieces_.depth(),
                           .y_pitch = features_,
                           .readable = floats_behind(block.position) >= kernels_.lanes};
    if (rows < LocalPieces::kFewRows) {
      std::fill_n(scratch.x, rows * pieces_.depth(), 0.0F);
      kernels_.inputs(product, weights + from, scratch.y, scratch.x);
    } else {
      product.depth = run_floats, product.x_pitch = inputs();
    }
    for (Index at = from; at < from + floats; at += run_floats) {
      float* const to = dx.data.data() + pieces_.begin(block.first) +
                        pieces_.begins()[static_cast<std::size_t>(at / pieces_.run())] + at % pieces_.run();
      if (rows < LocalPieces::kFewRows)
        add(scratch.x + at - from, {rows, run_floats, pieces_.depth()}, to);
      else
        kernels_.inputs(product, weights + at, scratch.y, to);
    }
  }
  /// The same of a block whose fields meet in scratch memory first, row of the input by row.
  void add_gradients(const LocalBlock& block, const Interval& met, ConstSpan w, const Scratch& scratch,
                     Tensor dx) const {
    const Index rows = dx.shape.n;
    pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece& next) {
      const Index along_axis = axis_ == 1 ? piece.row : piece.plane;
      if (along_axis < met.first || along_axis >= met.end) return;
      if (pieces_.is_copied(piece)) std::fill_n(scratch.x, rows * pieces_.pitch(), 0.0F);
      local::Product of = product(rows, piece, pieces_.weights_of(block, next, w.data()));
      of.readable = piece.end < pieces_.runs() || floats_behind(pieces_.position_of(block, piece)) > 0;
      const Scratch at = of_piece(scratch, rows, block, piece);
      kernels_.inputs(of, pieces_.weights_of(block, piece, w.data()), at.y, at.x);
      if (next.plane != piece.plane || next.row != piece.row)
        add(scratch.x, {rows, pieces_.block_run(block), pieces_.pitch()},
            dx.data.data() + pieces_.begin(pieces_.input_of(block, piece)));
    });
  }
  /// Weights of the positions behind one.
  Index floats_behind(Index position) const {
    return (pieces_.positions() - 1 - position) * features_ * pieces_.depth();
  }
  struct Runs {
    Index rows, floats, pitch;
  };
  void add(const float* x, const Runs& of, float* dx) const {
    for (Index n = 0; n < of.rows; ++n)
#pragma omp simd
      for (Index i = 0; i < of.floats; ++i) dx[n * inputs() + i] += x[n * of.pitch + i];
  }

  const local::Kernels& kernels_;
  const LocalPieces pieces_;
  const LocalPanels panels_;
  const int threads_ = omp_get_max_threads();  // later calls may find more
  ConvGeometry g_;
  Index features_, max_rows_;
  std::size_t axis_ = 0;     // the first with several input positions
  std::vector<Index> met_;   // along it: how often fields meet the positions before each
  Arena scratch_, updates_;  // updates_: empty before the first
};

}  // namespace

std::unique_ptr<LocallyConnectedOp> CpuBackend::locally_connected(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<LocallyConnected>(geometry, max_rows);
}

// What reconstruction ICA has beside the products of its untied weights: the penalty of features, and rows of one
// length.

void CpuBackend::add_sparsity(const StepContext& step, const SparsitySettings& settings, ConstTensor x, Tensor dx) {
  const float factor = settings.weight * step.loss_weight;
  const Index groups = std::ssize(x.data) / settings.pooled;
#pragma omp parallel for schedule(static)
  for (Index group = 0; group < groups; ++group)
    add_sparsity_of_group(settings, factor, x.data.data() + group * settings.pooled,
                          dx.data.data() + group * settings.pooled);
}

void CpuBackend::scale_rows(Span w, Index count, float length) {
  const Index rows = std::ssize(w) / count;
#pragma omp parallel for schedule(static)
  for (Index r = 0; r < rows; ++r)
    vectorised([row = w.data() + r * count, count, length] {
      constexpr Index chains = 64;  // sums that do not wait for each other
      float part[chains] = {}, squares = 0;
      Index first = 0;
      for (; first + chains <= count; first += chains)
#pragma omp simd
        for (Index i = 0; i < chains; ++i) part[i] += row[first + i] * row[first + i];
      for (; first < count; ++first) squares += row[first] * row[first];
      for (const float sum : part) squares += sum;
      const float factor = squares > 0 ? length / std::sqrt(squares) : 1;
      for (Index i = 0; i < count; ++i) row[i] *= factor;
    });
}

}  // namespace mrmf::cpu
