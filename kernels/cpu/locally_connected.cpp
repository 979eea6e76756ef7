// Locally connected layers: a small matrix product for every output position (local_products.inl). And the penalty and
// the constraint of reconstruction ICA, which is made of them.
//
// The input under a position is copied part by part, each of a few kernel rows, so that the rows of the batch lie side
// by side in the cache. Threads share out the output positions, and with them the weights. In the gradient of the
// input, where fields overlap, they share out the input instead: a thread computes the part of every field that lies in
// its band of positions. So no two write the same place, weights are read once, and results do not depend on the number
// of threads.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/sgd_range.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

const local::Kernels& local_kernels() {
  switch (instruction_set()) {
    case InstructionSet::avx512: return *local::avx512_kernels();
    case InstructionSet::avx2: return *local::avx2_kernels();
    case InstructionSet::generic: break;
  }
  return *local::generic_kernels();
}

/// Neighbouring output positions: some lines along the last axis but one, and so many of each along the last.
struct Block {
  Index position;  ///< number of the first
  Extent first;    ///< the first input position of its field
  Index lines, of_line;

  Index positions() const { return lines * of_line; }
};

/// Kernel rows [first, end) of the field of one position of a block. Each row is a run of the input.
struct Piece {
  Index first, end;
  Index plane, row;     ///< of the block's input, where the first run is
  Index line, of_line;  ///< the position, in the block
};

class LocallyConnected final : public LocallyConnectedOp {
 public:
  LocallyConnected(const ConvGeometry& geometry, Index max_rows)
      : kernels_(local_kernels()),
        g_(geometry),
        out_(geometry.out()),
        features_(geometry.out_channels),
        run_(geometry.kernel[2] * geometry.in_channels),
        runs_(geometry.kernel[0] * geometry.kernel[1]),
        depth_(run_ * runs_),
        step_(geometry.stride[2] * geometry.in_channels),
        max_rows_(std::max<Index>(1, max_rows)) {
    while (axis_ < 2 && g_.in[axis_] == 1) ++axis_;
    choose_sizes();
    met_.assign(static_cast<std::size_t>(g_.in[axis_]) + 1, 0);
    for (Index o = 0; o < out_[axis_]; ++o)
      for (Index k = 0; k < g_.kernel[axis_]; ++k) ++met_[static_cast<std::size_t>(o * g_.stride[axis_] + k) + 1];
    for (std::size_t i = 1; i < met_.size(); ++i) met_[i] += met_[i - 1];
    for (Index run = 0; run < runs_; ++run) begins_.push_back(begin({run / g_.kernel[1], run % g_.kernel[1], 0}));
    scratch_ = make_arena(threads_ * thread_floats());
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    for_each_block([&](const Block& block, Scratch& scratch) {
      const Index rows = x.shape.n;
      for_each_position(block, [&](Index position, Index place) {
        for (Index n = 0; n < rows; ++n)
          for (Index f = 0; f < features_; ++f)
            y_of(scratch.y, rows, place)[n * features_ + f] =
                b.empty() ? 0.0F : b[static_cast<std::size_t>(position * features_ + f)];
      });
      for_each_piece(block, [&](const Piece& piece, const Piece& next) {
        if (is_copied(piece)) copy_in(x, block, piece, scratch.x);
        kernels_.outputs(product(rows, piece, weights_of(block, next, w.data())), weights_of(block, piece, w.data()),
                         scratch.x + piece.of_line * step_, y_of(scratch.y, rows, place_of(block, piece)));
      });
      for_each_position(block, [&](Index position, Index place) {
        for (Index n = 0; n < rows; ++n)
          std::copy_n(y_of(scratch.y, rows, place) + n * features_, features_,
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
      for (Index i = 0; i < blocks(); ++i) {
        const Block block = block_of(i);
        const Index reach = axis_ == 1 ? input_rows(block) : g_.kernel[axis_];
        const Interval met{std::max<Index>(0, band.first - block.first[axis_]),
                           std::min(reach, band.end - block.first[axis_])};
        if (met.first >= met.end) continue;
        copy_gradient(dy, block, scratch.y);
        if (together_ > 1)
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
    for_each_block([&](const Block& block, Scratch& scratch) {
      float* const dw = updates_.span().data() + omp_get_thread_num() * update_floats();
      Scratch other{dw + aligned_floats(part_ * run_ * features_), nullptr};
      other.y = other.x + field_floats();
      const Index rows = first.dy.shape.n;
      copy_gradient(first.dy, block, scratch.y);
      if (second != nullptr) copy_gradient(second->dy, block, other.y);
      update_biases(step, rows, block, scratch.y, weights);
      for_each_piece(block, [&](const Piece& piece, const Piece&) {
        if (is_copied(piece)) {
          copy_in(first.x, block, piece, scratch.x);
          if (second != nullptr) copy_in(second->x, block, piece, other.x);
        }
        const auto of = [&](const Scratch& s) {
          return Scratch{s.x + piece.of_line * step_, y_of(s.y, rows, place_of(block, piece))};
        };
        const Scratch of_first = of(scratch), of_second = second == nullptr ? Scratch{nullptr, nullptr} : of(other);
        update_piece({piece, rows, first_weight(block, piece)}, of_first, of_second, step, weights, dw);
      });
    });
  }

 private:
  /// One thread's memory: runs of the rows' input, and a block's outputs or the gradient of these.
  struct Scratch {
    float *x, *y;
  };
  struct Interval {
    Index first, end;
  };

  // Long kernel rows are copied one by one, for the positions of a block at once, whose fields share most of the input.
  // Short ones are copied for one position, several behind each other: one long product instead of many short ones.
  // Neither depends on the number of threads.
  void choose_sizes() {
    constexpr Index long_run = 256;                    // floats
    constexpr Index cached_run = 32768;                // floats of all rows: half of the L2 cache with the outputs
    constexpr Index cached_outputs = 24576;            // floats
    constexpr Index most = 16, least_blocks = 64;      // positions of a line; so that threads can share blocks out
    constexpr Index cached_part = 65536, least = 256;  // floats of a part: all rows' in the L2 cache, and in any case
    const Index positions = product(out_);
    if (axis_ < 2 && run_ >= long_run && max_rows_ >= kFewRows && step_ < run_) {
      const Index fit = (cached_run / max_rows_ - run_) / step_ + 1;
      together_ = std::clamp<Index>(std::min({fit, most, positions / least_blocks, out_[2]}), 1, most);
    }
    Index floats = run_ + (together_ - 1) * step_;
    if (together_ > 1) {
      const Index fit = cached_outputs / (together_ * max_rows_ * features_);
      lines_ = std::clamp<Index>(std::min({fit, positions / (least_blocks * together_), out_[1]}), 1, most);
    } else {
      part_ = std::clamp<Index>(std::max(least, cached_part / max_rows_) / run_, 1, runs_);
      floats = part_ * run_;
    }
    constexpr Index line = 16;  // floats; an odd number of lines, so that rows do not share a set of the first cache
    pitch_ = ((floats + kernels_.lanes + line - 1) / line | 1) * line;
    blocks_of_line_ = (out_[2] + together_ - 1) / together_;
    lines_of_blocks_ = (out_[1] + lines_ - 1) / lines_;
  }

  void gradient(ConstTensor x, ConstTensor dy, bool add, Span dw, Span db) {
    for_each_block([&](const Block& block, Scratch& scratch) {
      const Index rows = x.shape.n;
      copy_gradient(dy, block, scratch.y);
      for_each_position(block, [&](Index position, Index place) {
        for (Index f = 0; f < features_ && !db.empty(); ++f)
          db[static_cast<std::size_t>(position * features_ + f)] = sum_of(rows, y_of(scratch.y, rows, place) + f);
      });
      for_each_piece(block, [&](const Piece& piece, const Piece& next) {
        if (is_copied(piece)) copy_in(x, block, piece, scratch.x);
        kernels_.weights(product(rows, piece, add ? weights_of(block, next, dw.data()) : nullptr),
                         {.scale = 1, .add = add}, scratch.x + piece.of_line * step_,
                         y_of(scratch.y, rows, place_of(block, piece)), weights_of(block, piece, dw.data()));
      });
    });
  }

  float sum_of(Index rows, const float* gradient) const {
    float sum = 0;
    for (Index n = 0; n < rows; ++n) sum += gradient[n * features_];
    return sum;
  }
  void update_biases(const StepContext& step, Index rows, const Block& block, const float* gradient,
                     const UntiedWeights& weights) const {
    if (weights.b.empty()) return;
    for_each_position(block, [&](Index position, Index place) {
      for (Index f = 0; f < features_; ++f) {
        const Index at = position * features_ + f;
        const float db = sum_of(rows, y_of(gradient, rows, place) + f);
        float* const velocity = weights.b_velocity.empty() ? nullptr : weights.b_velocity.data() + at;
        vectorised([&, b = weights.b.data() + at] { sgd_range(step.sgd, b, &db, velocity, 1); });
      }
    });
  }
  /// A piece's weights, the first of them at `at`.
  struct PieceWeights {
    Piece piece;
    Index rows, at;
  };
  // As many weights at once as leave their gradient in the first cache, beside the inputs of few rows. second.x may be
  // null.
  void update_piece(const PieceWeights& p, const Scratch& first, const Scratch& second, const StepContext& step,
                    const UntiedWeights& weights, float* dw) const {
    const Index cached = p.rows < kFewRows ? 2048 : 8192, all = (p.piece.end - p.piece.first) * run_;
    const Index floats = std::min(all, cached), group = std::max<Index>(1, cached / floats);
    for (Index f = 0; f < features_; f += group)
      for (Index d = 0; d < all; d += floats) {
        const Index at = p.at + f * depth_ + d;
        local::Product of = product(p.rows, p.piece, weights.w.data() + at);
        of.features = std::min(group, features_ - f);
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
        sgd_range(step.sgd, w + f * depth_, dw + f * of.w_pitch, velocity == nullptr ? nullptr : velocity + f * depth_,
                  of.depth);
    });
  }

  static Index product(const Extent& e) { return mrmf::product(e); }
  local::Product product(Index rows, const Piece& piece, const float* next) const {
    return {.rows = rows,
            .features = features_,
            .depth = (piece.end - piece.first) * run_,
            .w_pitch = depth_,
            .x_pitch = pitch_,
            .y_pitch = features_,
            .next = rows < kFewRows ? nullptr : next,
            .next_pitch = depth_};
  }
  Index outputs() const { return product(out_) * features_; }
  Index inputs() const { return product(g_.in) * g_.in_channels; }

  static Index aligned_floats(Index count) { return (count + 15) / 16 * 16; }
  Index field_floats() const {
    return aligned_floats(std::max(max_rows_ * pitch_, std::min(kFewRows, max_rows_) * depth_));
  }
  Index thread_floats() const { return field_floats() + aligned_floats(lines_ * together_ * max_rows_ * features_); }
  Index update_floats() const { return aligned_floats(part_ * run_ * features_) + thread_floats(); }
  Scratch scratch_of(int thread) {
    float* const first = scratch_.span().data() + thread * thread_floats();
    return {first, first + field_floats()};
  }

  Index blocks() const { return out_[0] * lines_of_blocks_ * blocks_of_line_; }
  Block block_of(Index number) const {
    const Index i = number / blocks_of_line_ / lines_of_blocks_;
    const Index j = number / blocks_of_line_ % lines_of_blocks_ * lines_, k = number % blocks_of_line_ * together_;
    return {(i * out_[1] + j) * out_[2] + k,
            {i * g_.stride[0], j * g_.stride[1], k * g_.stride[2]},
            std::min(lines_, out_[1] - j),
            std::min(together_, out_[2] - k)};
  }
  /// Rows of the input, along the last axis but one, that a block's fields cover.
  Index input_rows(const Block& block) const { return (block.lines - 1) * g_.stride[1] + g_.kernel[1]; }
  template <class Use>
  void for_each_block(const Use& use) {
#pragma omp parallel num_threads(threads_)
    {
      Scratch scratch = scratch_of(omp_get_thread_num());
#pragma omp for schedule(static)
      for (Index i = 0; i < blocks(); ++i) use(block_of(i), scratch);
    }
  }
  // Calls use(number of the position, its place in the block).
  template <class Use>
  void for_each_position(const Block& block, const Use& use) const {
    for (Index place = 0; place < block.positions(); ++place)
      use(block.position + place / block.of_line * out_[2] + place % block.of_line, place);
  }
  static Index place_of(const Block& block, const Piece& piece) { return piece.line * block.of_line + piece.of_line; }
  /// What a block's y has of one of its positions: (rows, features).
  template <class Float>
  Float* y_of(Float* y, Index rows, Index place) const {
    return y + place * rows * features_;
  }

  // Calls use(piece, the one after it) for all pieces of a block, those with the same input one after the other. There
  // is none after the last: its `plane` is behind the kernel's.
  template <class Use>
  void for_each_piece(const Block& block, const Use& use) const {
    Piece piece{0, part_, 0, 0, 0, 0};
    while (piece.plane < g_.kernel[0]) {
      const Piece next = together_ > 1 ? next_position(block, piece) : next_part(piece);
      use(piece, next);
      piece = next;
    }
  }
  Piece next_part(Piece piece) const {
    piece.first = piece.end;
    piece.end = std::min(runs_, piece.end + part_);
    piece.plane = piece.first / g_.kernel[1];
    return piece;
  }
  // The next position along the line, else of the next line whose fields have this row of the input, else of the first
  // line that has the next row.
  Piece next_position(const Block& block, Piece piece) const {
    if (++piece.of_line == block.of_line) {
      piece.of_line = 0;
      ++piece.line;
      while (piece.line == block.lines || !has_row(piece)) {
        if (piece.line < block.lines && piece.row >= piece.line * g_.stride[1]) {
          ++piece.line;
          continue;
        }
        piece.line = 0;
        if (++piece.row == input_rows(block)) {
          piece.row = 0;
          if (++piece.plane == g_.kernel[0]) return piece;
        }
      }
    }
    piece.first = piece.plane * g_.kernel[1] + piece.row - piece.line * g_.stride[1];
    piece.end = piece.first + 1;
    return piece;
  }
  bool has_row(const Piece& piece) const {
    const Index row = piece.row - piece.line * g_.stride[1];
    return row >= 0 && row < g_.kernel[1];
  }
  /// Whether a piece is the first with its input.
  bool is_copied(const Piece& piece) const {
    return piece.of_line == 0 && (piece.line == 0 || piece.row - (piece.line - 1) * g_.stride[1] >= g_.kernel[1]);
  }

  /// Where a piece's first weights are.
  Index first_weight(const Block& block, const Piece& piece) const {
    const Index position = block.position + piece.line * out_[2] + piece.of_line;
    return position * features_ * depth_ + piece.first * run_;
  }
  template <class Float>
  Float* weights_of(const Block& block, const Piece& piece, Float* w) const {
    return piece.plane < g_.kernel[0] ? w + first_weight(block, piece) : nullptr;
  }

  /// Where an input position begins in a sample.
  Index begin(const Extent& at) const { return ((at[0] * g_.in[1] + at[1]) * g_.in[2] + at[2]) * g_.in_channels; }
  Extent input_of(const Block& block, const Piece& piece) const {
    return {block.first[0] + piece.plane, block.first[1] + piece.row, block.first[2]};
  }
  Index block_run(const Block& block) const { return run_ + (block.of_line - 1) * step_; }
  /// What a piece reads of every row: kernel rows of one position, or one row for a block's positions.
  void copy_in(ConstTensor x, const Block& block, const Piece& piece, float* to) const {
    const Index one = begin({piece.plane, piece.row, 0});
    kernels_.copy({.rows = x.shape.n,
                   .count = piece.end - piece.first,
                   .floats = block_run(block),
                   .begins = together_ > 1 ? &one : begins_.data() + piece.first,
                   .x_pitch = inputs(),
                   .to_pitch = pitch_},
                  x.data.data() + begin(block.first), to);
  }
  void copy_gradient(ConstTensor dy, const Block& block, float* to) const {
    for_each_position(block, [&](Index position, Index place) {
      for (Index n = 0; n < dy.shape.n; ++n)
        std::copy_n(dy.data.data() + n * outputs() + position * features_, features_,
                    y_of(to, dy.shape.n, place) + n * features_);
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
  void add_gradient(const Block& block, const Interval& met, ConstSpan w, const Scratch& scratch, Tensor dx) const {
    const Index each = depth_ / g_.kernel[axis_], from = met.first * each, floats = (met.end - met.first) * each;
    const Index run_floats = std::min(run_, floats), rows = dx.shape.n;
    const float* const weights = w.data() + block.position * features_ * depth_;
    local::Product product{.rows = rows,
                           .features = features_,
                           .depth = floats,
                           .w_pitch = depth_,
                           .x_pitch = depth_,
                           .y_pitch = features_,
                           .readable = floats_behind(block.position) >= kernels_.lanes};
    if (rows < kFewRows) {
      std::fill_n(scratch.x, rows * depth_, 0.0F);
      kernels_.inputs(product, weights + from, scratch.y, scratch.x);
    } else {
      product.depth = run_floats, product.x_pitch = inputs();
    }
    for (Index at = from; at < from + floats; at += run_floats) {
      float* const to = dx.data.data() + begin(block.first) + begins_[static_cast<std::size_t>(at / run_)] + at % run_;
      if (rows < kFewRows)
        add(scratch.x + at - from, {rows, run_floats, depth_}, to);
      else
        kernels_.inputs(product, weights + at, scratch.y, to);
    }
  }
  /// The same of a block whose fields meet in scratch memory first, row of the input by row.
  void add_gradients(const Block& block, const Interval& met, ConstSpan w, const Scratch& scratch, Tensor dx) const {
    const Index rows = dx.shape.n;
    for_each_piece(block, [&](const Piece& piece, const Piece& next) {
      const Index along_axis = axis_ == 1 ? piece.row : piece.plane;
      if (along_axis < met.first || along_axis >= met.end) return;
      if (is_copied(piece)) std::fill_n(scratch.x, rows * pitch_, 0.0F);
      local::Product of = product(rows, piece, weights_of(block, next, w.data()));
      of.readable = piece.end < runs_ || floats_behind(first_weight(block, piece) / (features_ * depth_)) > 0;
      kernels_.inputs(of, weights_of(block, piece, w.data()), y_of(scratch.y, rows, place_of(block, piece)),
                      scratch.x + piece.of_line * step_);
      if (next.plane != piece.plane || next.row != piece.row)
        add(scratch.x, {rows, block_run(block), pitch_}, dx.data.data() + begin(input_of(block, piece)));
    });
  }
  /// Weights of the positions behind one.
  Index floats_behind(Index position) const { return (mrmf::product(out_) - 1 - position) * features_ * depth_; }
  struct Runs {
    Index rows, floats, pitch;
  };
  void add(const float* x, const Runs& of, float* dx) const {
    for (Index n = 0; n < of.rows; ++n)
#pragma omp simd
      for (Index i = 0; i < of.floats; ++i) dx[n * inputs() + i] += x[n * of.pitch + i];
  }

  static constexpr Index kFewRows = 4;
  const local::Kernels& kernels_;
  const int threads_ = omp_get_max_threads();  // later calls may find more
  ConvGeometry g_;
  Extent out_;
  Index features_;
  Index run_, runs_, depth_;  // floats of a kernel row, kernel rows, floats of a field
  Index step_;                // floats from one field to the next along the last axis
  Index max_rows_;
  Index together_ = 1, lines_ = 1;                  // positions of a block along the last axis; its lines
  Index blocks_of_line_ = 1, lines_of_blocks_ = 1;  // blocks along the last axis, and along the one before
  Index part_ = 1, pitch_ = 0;                      // kernel rows of a piece; floats from one row's to the next's
  std::size_t axis_ = 0;                            // the first with several input positions
  std::vector<Index> met_;                          // along it: how often fields meet the positions before each
  std::vector<Index> begins_;                       // of kernel rows, in a sample, from the field's first position on
  Arena scratch_, updates_;                         // updates_: empty before the first
};

}  // namespace

std::unique_ptr<LocallyConnectedOp> CpuBackend::locally_connected(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<LocallyConnected>(geometry, max_rows);
}

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
