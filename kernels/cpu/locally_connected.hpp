// How a locally connected layer's work is cut into matrix products: blocks of output positions and pieces of their
// fields, and panels of rows where batches are large.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/operations.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {

// How a locally connected layer's work is cut: blocks of neighbouring output positions, whose fields share most of the
// input, and pieces of their fields, for each of which a kernel is called (locally_connected.inl).
//
// Long kernel rows are copied one by one, for all positions of a block at once. Short ones are copied for one position,
// several behind each other: one long product instead of many short ones. Neither depends on the number of threads.

/// Neighbouring output positions: some lines along the last axis but one, and so many of each along the last.
struct LocalBlock {
  Index position;  ///< number of the first
  Extent first;    ///< the first input position of its field
  Index lines, columns;

  Index positions() const { return lines * columns; }
};

/// Kernel rows [first, end) of the field of one position of a block. Each row is a run of the input.
struct LocalPiece {
  Index first, end;
  Index plane, row;    ///< where the first run is in the block's input
  Index line, column;  ///< the position, in the block
};

/// Positions [first, end) along an axis.
struct Interval {
  Index first, end;
};

/// Blocks and pieces of a layer, and where they lie in its input and its weights.
class LocalPieces {
 public:
  /// Fewer rows: reading weights takes the time.
  static constexpr Index kFewRows = 4;

  /// What is copied at once: of short kernel rows a piece of a position's field; always rows under a block.
  enum class Copied { blocks_of_long_rows, blocks };

  /// From so many rows on a vector has values of many rows (LocalPanels), not of one row's run.
  static constexpr Index kManyRows = 12;

  /// lanes: floats in a vector.
  LocalPieces(const ConvGeometry& geometry, Index max_rows, Index lanes, Copied copied = Copied::blocks_of_long_rows)
      : g_(geometry),
        out_(geometry.out()),
        run_(geometry.kernel[2] * geometry.in_channels),
        runs_(geometry.kernel[0] * geometry.kernel[1]),
        step_(geometry.stride[2] * geometry.in_channels) {
    const Index long_run = copied == Copied::blocks ? 1 : max_rows < kManyRows ? kLongRun : kLongRunOfManyRows;
    choose_sizes(std::max<Index>(1, max_rows), lanes, long_run);
    for (Index run = 0; run < runs_; ++run) begins_.push_back(begin({run / g_.kernel[1], run % g_.kernel[1], 0}));
  }

  Index run() const { return run_; }            ///< floats of a kernel row
  Index runs() const { return runs_; }          ///< kernel rows of a field
  Index depth() const { return run_ * runs_; }  ///< floats of a field
  Index step() const { return step_; }          ///< floats from one field to the next along the last axis
  Index together() const { return together_; }  ///< positions of a block along the last axis; 1: pieces of many rows
  Index lines() const { return lines_; }        ///< its positions along the axis before, at most
  Index part() const { return part_; }          ///< kernel rows of a piece, at most
  Index pitch() const { return pitch_; }        ///< floats from one row of the batch to the next in copied runs
  Index positions() const { return product(out_); }
  /// Where kernel rows begin in a sample, from the first position of a field on.
  const std::vector<Index>& begins() const { return begins_; }

  Index blocks() const { return out_[0] * lines_of_blocks_ * blocks_of_line_; }
  LocalBlock block_of(Index number) const {
    const Index i = number / blocks_of_line_ / lines_of_blocks_;
    const Index j = number / blocks_of_line_ % lines_of_blocks_ * lines_, k = number % blocks_of_line_ * together_;
    return {(i * out_[1] + j) * out_[2] + k,
            {i * g_.stride[0], j * g_.stride[1], k * g_.stride[2]},
            std::min(lines_, out_[1] - j),
            std::min(together_, out_[2] - k)};
  }
  /// Rows of the input, along the last axis but one, that a block's fields cover.
  Index input_rows(const LocalBlock& block) const { return (block.lines - 1) * g_.stride[1] + g_.kernel[1]; }
  /// Calls use(number of the position, its index in the block).
  template <class Use>
  void for_each_position(const LocalBlock& block, const Use& use) const {
    for (Index index = 0; index < block.positions(); ++index)
      use(block.position + index / block.columns * out_[2] + index % block.columns, index);
  }
  /// The index of a piece's position in the block.
  static Index index_of(const LocalBlock& block, const LocalPiece& piece) {
    return piece.line * block.columns + piece.column;
  }
  /// Calls use(piece, the one after it) for all pieces of a block, those with the same input one after the other. There
  /// is none after the last: its `plane` is behind the kernel's.
  template <class Use>
  void for_each_piece(const LocalBlock& block, const Use& use) const {
    LocalPiece piece{0, part_, 0, 0, 0, 0};
    while (piece.plane < g_.kernel[0]) {
      const LocalPiece next = together_ > 1 ? next_position(block, piece) : next_part(piece);
      use(piece, next);
      piece = next;
    }
  }
  /// Whether a piece is the first with its input.
  bool is_copied(const LocalPiece& piece) const {
    return piece.column == 0 && (piece.line == 0 || piece.row - (piece.line - 1) * g_.stride[1] >= g_.kernel[1]);
  }

  /// The number of a piece's output position.
  Index position_of(const LocalBlock& block, const LocalPiece& piece) const {
    return block.position + piece.line * out_[2] + piece.column;
  }
  /// Where a piece's first weights are.
  Index first_weight(const LocalBlock& block, const LocalPiece& piece) const {
    return position_of(block, piece) * g_.out_channels * depth() + piece.first * run_;
  }
  /// Those weights, of a layer's; null behind the last piece.
  template <class Float>
  Float* weights_of(const LocalBlock& block, const LocalPiece& piece, Float* w) const {
    return piece.plane < g_.kernel[0] ? w + first_weight(block, piece) : nullptr;
  }
  /// Where an input position begins in a sample.
  Index begin(const Extent& at) const { return ((at[0] * g_.in[1] + at[1]) * g_.in[2] + at[2]) * g_.in_channels; }
  /// The input position where a piece's first run begins.
  Extent input_of(const LocalBlock& block, const LocalPiece& piece) const {
    return {block.first[0] + piece.plane, block.first[1] + piece.row, block.first[2]};
  }
  /// Floats of a run that covers the block's fields along the last axis.
  Index block_run(const LocalBlock& block) const { return run_ + (block.columns - 1) * step_; }

 private:
  LocalPiece next_part(LocalPiece piece) const {
    piece.first = piece.end;
    piece.end = std::min(runs_, piece.end + part_);
    piece.plane = piece.first / g_.kernel[1];
    return piece;
  }
  // The next position along the line, else of the next line whose fields have this row of the input, else of the first
  // line that has the next row.
  LocalPiece next_position(const LocalBlock& block, LocalPiece piece) const {
    if (++piece.column == block.columns) {
      piece.column = 0;
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
  bool has_row(const LocalPiece& piece) const {
    const Index row = piece.row - piece.line * g_.stride[1];
    return row >= 0 && row < g_.kernel[1];
  }
  static constexpr Index kLongRun = 256, kLongRunOfManyRows = 48;  // floats

  void choose_sizes(Index max_rows, Index lanes, Index long_run) {
    constexpr Index cached_run = 32768;                // floats of all rows: half of the L2 cache with the outputs
    constexpr Index cached_outputs = 24576;            // floats
    constexpr Index most = 16, least_blocks = 64;      // positions of a line; so that threads can share blocks out
    constexpr Index cached_part = 65536, least = 256;  // floats of a part: all rows' in the L2 cache, and in any case
    const Index positions = product(out_);
    // Along one axis alone, threads that share the input would cut a block's row. Without overlap there is nothing to
    // copy together.
    if ((g_.in[0] > 1 || g_.in[1] > 1) && run_ >= long_run && max_rows >= kFewRows && step_ < run_) {
      const Index fit = (cached_run / max_rows - run_) / step_ + 1;
      together_ = std::clamp<Index>(std::min({fit, most, positions / least_blocks, out_[2]}), 1, most);
    }
    Index floats = run_ + (together_ - 1) * step_;
    if (together_ > 1) {
      const Index fit = cached_outputs / (together_ * max_rows * g_.out_channels);
      lines_ = std::clamp<Index>(std::min({fit, positions / (least_blocks * together_), out_[1]}), 1, most);
    } else {
      part_ = std::clamp<Index>(std::max(least, cached_part / max_rows) / run_, 1, runs_);
      floats = part_ * run_;
    }
    constexpr Index line = 16;  // floats; an odd number of lines, so that rows do not share a set of the first cache
    pitch_ = ((floats + lanes + line - 1) / line | 1) * line;
    blocks_of_line_ = (out_[2] + together_ - 1) / together_;
    lines_of_blocks_ = (out_[1] + lines_ - 1) / lines_;
  }

  ConvGeometry g_;
  Extent out_;
  Index run_, runs_, step_;
  Index together_ = 1, lines_ = 1, part_ = 1, pitch_ = 0;
  Index blocks_of_line_ = 1, lines_of_blocks_ = 1;  // blocks along the last axis, and along the one before
  std::vector<Index> begins_;
};

// Forward pass and gradient of the input of a locally connected layer for batches of many rows: the rows of the input
// under a block of positions are put into panels (locally_connected.inl) one by one, and the block's outputs lie in
// panels until all of its rows have passed.

class LocalPanels {
 public:
  LocalPanels(const ConvGeometry& geometry, Index max_rows, const local::Kernels& kernels)
      : kernels_(kernels),
        pieces_(geometry, max_rows, kernels.lanes, LocalPieces::Copied::blocks),
        features_(geometry.out_channels),
        inputs_(mrmf::product(geometry.in) * geometry.in_channels),
        max_rows_(std::max<Index>(1, max_rows)) {}

  /// Whether a batch of so many rows is computed so: where most lanes have a row, and fields overlap.
  bool serve(Index rows) const {
    return rows >= LocalPieces::kManyRows && 4 * rows >= 3 * padded(rows) && pieces_.together() > 1;
  }
  /// Floats that a thread needs for batches of up to max_rows.
  Index floats() const {
    if (max_rows_ < LocalPieces::kManyRows || pieces_.together() == 1) return 0;
    const Index positions = pieces_.together() * pieces_.lines(),
                run = pieces_.run() + (pieces_.together() - 1) * pieces_.step();
    return padded(max_rows_) * (run + positions * features_);
  }
  const LocalPieces& pieces() const { return pieces_; }

  /// The outputs of a block.
  void forward(const LocalBlock& block, ConstTensor x, ConstSpan w, ConstSpan b, float* scratch, Tensor y) const {
    const Index rows = x.shape.n;
    float* const outputs = scratch + input_floats(block, rows);
    pieces_.for_each_position(block, [&](Index position, Index index) {
      float* const to = y_of(outputs, rows, index);
      if (b.empty())
        std::fill_n(to, padded(rows) * features_, 0.0F);
      else
        kernels_.to_panels({rows, features_, 0}, b.data() + position * features_, to);
    });
    pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece& next) {
      if (pieces_.is_copied(piece))
        kernels_.to_panels(run(block, rows), x.data.data() + pieces_.begin(pieces_.input_of(block, piece)), scratch);
      kernels_.panel_outputs(product(rows, block, piece, pieces_.weights_of(block, next, w.data())),
                             pieces_.weights_of(block, piece, w.data()), scratch,
                             y_of(outputs, rows, LocalPieces::index_of(block, piece)));
    });
    pieces_.for_each_position(block, [&](Index position, Index index) {
      kernels_.from_panels(outputs_run(rows), y_of(outputs, rows, index), y.data.data() + position * features_);
    });
  }

  /// Adds the gradient of a block's fields to dx, where they lie in `met`: positions along `axis` from the block's
  /// first input on.
  void backward_data(const LocalBlock& block, std::size_t axis, const Interval& met, ConstTensor dy, ConstSpan w,
                     float* scratch, Tensor dx) const {
    const Index rows = dx.shape.n;
    float* const gradients = scratch + input_floats(block, rows);
    pieces_.for_each_position(block, [&](Index position, Index index) {
      kernels_.to_panels(outputs_run(rows), dy.data.data() + position * features_, y_of(gradients, rows, index));
    });
    pieces_.for_each_piece(block, [&](const LocalPiece& piece, const LocalPiece& next) {
      const Index along_axis = axis == 1 ? piece.row : piece.plane;
      if (along_axis < met.first || along_axis >= met.end) return;
      if (pieces_.is_copied(piece)) std::fill_n(scratch, input_floats(block, rows), 0.0F);
      kernels_.panel_inputs(product(rows, block, piece, pieces_.weights_of(block, next, w.data())),
                            pieces_.weights_of(block, piece, w.data()),
                            y_of(gradients, rows, LocalPieces::index_of(block, piece)), scratch);
      if (next.plane != piece.plane || next.row != piece.row)
        kernels_.add_panels(run(block, rows), scratch, dx.data.data() + pieces_.begin(pieces_.input_of(block, piece)));
    });
  }

 private:
  /// Rows and what lanes are left of the last vector.
  Index padded(Index rows) const { return (rows + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  Index input_floats(const LocalBlock& block, Index rows) const { return padded(rows) * pieces_.block_run(block); }
  local::PanelRun run(const LocalBlock& block, Index rows) const { return {rows, pieces_.block_run(block), inputs_}; }
  local::PanelRun outputs_run(Index rows) const { return {rows, features_, pieces_.positions() * features_}; }
  float* y_of(float* outputs, Index rows, Index index) const { return outputs + index * padded(rows) * features_; }
  local::PanelProduct product(Index rows, const LocalBlock& block, const LocalPiece& piece, const float* next) const {
    return {.rows = rows,
            .features = features_,
            .depth = pieces_.run(),
            .w_pitch = pieces_.depth(),
            .x_first = piece.column * pieces_.step(),
            .x_length = pieces_.block_run(block),
            .next = next,
            .next_pitch = pieces_.depth()};
  }

  const local::Kernels& kernels_;
  const LocalPieces pieces_;
  Index features_, inputs_, max_rows_;
};

}  // namespace mrmf::cpu
