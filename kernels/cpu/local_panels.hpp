// Forward pass and gradient of the input of a locally connected layer for batches of many rows: the rows of the input
// under a block of positions are put into panels (local_panels.inl) one by one, and the block's outputs lie in panels
// until all of its rows have passed.
#pragma once

#include <algorithm>

#include "kernels/cpu/local_pieces.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {

class LocalPanels {
 public:
  LocalPanels(const ConvGeometry& geometry, Index max_rows, const local::Kernels& kernels)
      : kernels_(kernels),
        pieces_(geometry, max_rows, kernels.lanes, LocalPieces::Copied::blocks),
        features_(geometry.out_channels),
        inputs_(mrmf::product(geometry.in) * geometry.in_channels),
        max_rows_(std::max<Index>(1, max_rows)) {}

  /// Whether a batch of so many rows is computed so: where most lanes have a row, and fields overlap.
  bool serve(Index rows) const { return rows >= kFewest && 4 * rows >= 3 * padded(rows) && pieces_.together() > 1; }
  /// Floats that a thread needs for batches of up to max_rows.
  Index floats() const {
    if (max_rows_ < kFewest || pieces_.together() == 1) return 0;
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
  static constexpr Index kFewest = 12;  // rows

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
