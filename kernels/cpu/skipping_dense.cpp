// Gradients of dense layers as products whose left factor, dy or its transpose, has many zeros: lists of the others,
// and which threads multiply what.
#include "kernels/cpu/skipping_dense.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {
namespace {

using sparse::group_rows;

/// A matrix in place: the number in row i and column k is values[i * row_step + k * column_step].
struct SparseFactor {
  const float* values;
  Index rows, columns, row_step, column_step;
};

/// The other factor and the product, both by rows of `columns` floats.
struct DenseFactor {
  const float* b;
  float* c;
  Index columns;
};

constexpr Index kDepth = sparse::most_depth;

Index groups_of(const SparseFactor& a) { return (a.rows + group_rows - 1) / group_rows; }
Index blocks_of(const SparseFactor& a) { return (a.columns + kDepth - 1) / kDepth; }

/// Copies a block of columns of a group's rows, one row kDepth floats behind the other, with zeros for rows that are
/// not there and behind the last column.
void copy_group(const SparseFactor& a, Index row, Index column, float* to) {
  const Index rows = std::min<Index>(group_rows, a.rows - row), count = std::min(kDepth, a.columns - column);
  for (Index r = 0; r < group_rows; ++r) {
    const float* const from = a.values + (row + r) * a.row_step + column * a.column_step;
    const Index there = r < rows ? count : 0;
    for (Index k = 0; k < there; ++k) to[r * kDepth + k] = from[k * a.column_step];
    std::fill(to + r * kDepth + there, to + (r + 1) * kDepth, 0.0F);
  }
}

class SkippingDense final : public WeightedOp {
 public:
  SkippingDense(const sparse::Kernels& kernels, std::unique_ptr<WeightedOp> all, Index in, Index out,
                SharedWorkspace memory)
      : kernels_(kernels), all_(std::move(all)), in_(in), out_(out), memory_(std::move(memory)) {}

  void prepare(Index rows) override {
    all_->prepare(rows);
    reserve(data_factor(nullptr, rows)), reserve(weight_factor(nullptr, rows));
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { all_->forward(x, w, b, y); }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    if (!worth_skipping(dy)) return all_->backward_data(dy, w, dx);
    multiply(data_factor(dy.data.data(), dy.shape.n), {w.data(), dx.data.data(), in_});
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    if (!worth_skipping(dy)) return all_->backward_weights(x, dy, dw, db);
    const Index rows = dy.shape.n;
    multiply(weight_factor(dy.data.data(), rows), {x.data.data(), dw.data(), in_});
    if (db.empty()) return;
    constexpr Index piece = 64;
    share_out((out_ + piece - 1) / piece, memory_->threads(), [&](Index first, Index last, int) {
      const float* const from = dy.data.data();
      float* const to = db.data();
      const Index begin = first * piece, end = std::min(last * piece, out_);
      std::fill(to + begin, to + end, 0.0F);
      for (Index n = 0; n < rows; ++n)
        for (Index o = begin; o < end; ++o) to[o] += from[n * out_ + o];
    });
  }

 private:
  // dx = dy w, and dw = dy^T x.
  SparseFactor data_factor(const float* dy, Index rows) const { return {dy, rows, out_, out_, 1}; }
  SparseFactor weight_factor(const float* dy, Index rows) const { return {dy, out_, rows, 1, out_}; }

  /// Ints of a list of columns, and floats of one of values, for a block of columns of a group.
  Index columns_of(const SparseFactor& a) const { return whole_lines(std::min(kDepth, a.columns) + kernels_.lanes); }
  Index values_of(const SparseFactor& a) const {
    return whole_lines(group_rows * std::min(kDepth, a.columns) + 2 * sparse::group_sets * kernels_.lanes);
  }
  /// Memory for its lists; takes none that is there already.
  void reserve(const SparseFactor& a) {
    const Index lists = groups_of(a) * blocks_of(a);
    // A thread has a panel and an edge, or the rows of a group, which are less.
    memory_->reserve(lists * (columns_of(a) + values_of(a)), whole_lines((kDepth + group_rows) * kernels_.columns));
    groups_.resize(std::max(groups_.size(), static_cast<std::size_t>(lists)));
  }

  /// Where more are not zero, plain products are as fast: they need a load for several multiply-adds.
  bool worth_skipping(const ConstTensor& dy) const {
    constexpr double most = 0.55;
    std::atomic<Index> found = 0;
    const Index count = std::ssize(dy.data);
    for_ranges(count, [&](Index first, Index floats) {
      int here = 0;
      for (const float value : dy.data.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(floats)))
        here += static_cast<int>(value != 0);
      found += here;
    });
    return static_cast<double>(found) <= most * static_cast<double>(count);
  }

  void list(const SparseFactor& a) {
    reserve(a);
    const Index groups = groups_of(a), lists = groups * blocks_of(a);
    // Ints and floats share the memory, each in a part of its own.
    int* const columns = reinterpret_cast<int*>(memory_->common());
    float* const values = memory_->common() + lists * columns_of(a);
    share_out(lists, memory_->threads(), [&](Index first, Index last, int thread) {
      float* const rows = memory_->of_thread(thread);
      for (; first < last; ++first) {
        const Index column = first / groups * kDepth;
        copy_group(a, first % groups * group_rows, column, rows);
        kernels_.list(std::min(kDepth, a.columns - column), rows, columns + first * columns_of(a),
                      values + first * values_of(a), groups_[static_cast<std::size_t>(first)]);
      }
    });
  }

  /// Threads share panels of C, and where those are few the groups of rows, too.
  void multiply(const SparseFactor& a, const DenseFactor& to) {
    list(a);
    const Index groups = groups_of(a), panels = (to.columns + kernels_.columns - 1) / kernels_.columns;
    const Index wanted = SharedLoop::kRuns * memory_->threads();
    const Index parts = std::clamp<Index>((wanted + panels - 1) / panels, 1, groups);
    share_out(panels * parts, memory_->threads(), [&](Index first, Index last, int thread) {
      for (; first < last; ++first) {
        const Index part = first % parts;
        panel_of(a, to, first / parts, {groups * part / parts, groups * (part + 1) / parts},
                 memory_->of_thread(thread));
      }
    });
  }

  void panel_of(const SparseFactor& a, const DenseFactor& to, Index panel, std::pair<Index, Index> groups,
                float* packed) {
    const Index begin = panel * kernels_.columns, columns = std::min(kernels_.columns, to.columns - begin);
    float* const edge = packed + kDepth * kernels_.columns;  // for a group that reaches past C
    for (Index block = 0, k = 0; k < a.columns; ++block, k += kDepth) {
      kernels_.pack(std::min(kDepth, a.columns - k), columns, to.b + k * to.columns + begin, to.columns, packed);
      for (Index g = groups.first; g < groups.second; ++g) {
        const sparse::Group& group = groups_[static_cast<std::size_t>(block * groups_of(a) + g)];
        const Index rows = std::min<Index>(group_rows, a.rows - g * group_rows);
        float* const c = to.c + g * group_rows * to.columns + begin;
        if (rows == group_rows && columns == kernels_.columns) {
          kernels_.multiply(group, packed, block > 0, c, to.columns);
          continue;
        }
        kernels_.multiply(group, packed, false, edge, kernels_.columns);
        for (Index r = 0; r < rows; ++r)
          for (Index i = 0; i < columns; ++i) {
            float& sum = c[r * to.columns + i];
            sum = (block > 0 ? sum : 0.0F) + edge[r * kernels_.columns + i];
          }
      }
    }
  }

  const sparse::Kernels& kernels_;
  std::unique_ptr<WeightedOp> all_;
  Index in_, out_;
  SharedWorkspace memory_;
  std::vector<sparse::Group> groups_;  // by block of columns, then by group of rows
};

}  // namespace

std::unique_ptr<WeightedOp> make_skipping_dense(InstructionSet set, std::unique_ptr<WeightedOp> all, Index in,
                                                Index out, SharedWorkspace memory) {
  const sparse::Kernels& kernels =
      *of_set(set, sparse::generic_kernels, sparse::avx2_kernels, sparse::avx512_kernels)();
  return std::make_unique<SkippingDense>(kernels, std::move(all), in, out, std::move(memory));
}

}  // namespace mrmf::cpu
