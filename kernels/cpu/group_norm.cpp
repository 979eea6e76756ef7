// Norms over each sample's own values, in groups of channels, with the ReLU behind them. A sample is cut into pieces of
// positions, which threads share; the pieces' sums are added in their order.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"

namespace mrmf::cpu {
namespace {

class GroupNorm final : public NormOp {
 public:
  GroupNorm(const GroupNormSettings& settings, Index max_rows);

  bool accepts_slices() const override { return true; }
  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override;
  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override;

 private:
  /// Positions [first, last), counted over all samples, of one sample.
  struct Piece {
    Index number, row, first, last;
  };
  /// Memory of one share of the pieces, and their sums.
  struct Scratch {
    std::vector<double> sums;                                 // two per channel, of one piece
    std::vector<double> gradients;                            // gradients of beta and gamma, over the share's pieces
    std::vector<float> mean, factor, inverse, offset, slope;  // a sample's terms per channel
    explicit Scratch(std::size_t channels)
        : sums(2 * channels),
          gradients(2 * channels),
          mean(channels),
          factor(channels),
          inverse(channels),
          offset(channels),
          slope(channels) {}
  };

  /// Divides the pieces of all samples into shares, which threads take: body(piece, scratch).
  template <class Body>
  void for_pieces(Index rows, const Body& body) {
    const Index count = rows * pieces_, shares = std::ssize(scratch_);
    share_out(shares, threads_, [&](Index share, Index end, int) {
      for (; share < end; ++share)
        for (Index i = count * share / shares; i < count * (share + 1) / shares; ++i) {
          const Index row = i / pieces_, first = i % pieces_ * piece_;
          body(Piece{i, row, row * s_.positions + first, row * s_.positions + std::min(s_.positions, first + piece_)},
               scratch_[static_cast<std::size_t>(share)]);
        }
    });
  }
  /// Adds up the two sums of each group, of the pieces and of the ranks that share the sample: use(row * groups +
  /// group, first, second).
  template <class Use>
  void reduce_groups(const StepContext& step, Index rows, const Use& use) {
    const std::span all = std::span(totals_).first(static_cast<std::size_t>(2 * rows * s_.groups));
    std::ranges::fill(all, 0.0);
    for (Index p = 0; p < rows * pieces_; ++p)
      for (Index i = 0; i < 2 * s_.groups; ++i)
        all[static_cast<std::size_t>(p / pieces_ * 2 * s_.groups + i)] +=
            partial_[static_cast<std::size_t>(p * 2 * s_.groups + i)];
    MRMF_CHECK(s_.sample_positions == 0 || step.sample_sum != nullptr,
               "a norm of a block needs the sums over its sample");
    if (s_.sample_positions > 0) step.sample_sum->sum(all);
    for (Index row = 0; row < rows; ++row)
      for (Index group = 0; group < s_.groups; ++group) {
        const auto at = static_cast<std::size_t>(row * 2 * s_.groups + group);
        use(row * s_.groups + group, all[at], all[at + static_cast<std::size_t>(s_.groups)]);
      }
  }
  /// A piece's positions as a line without pooling.
  norm_loops::Line line(const Piece& piece, Index y_stride, bool stream) const {
    const Index count = piece.last - piece.first;
    return {count, s_.channels, 1, count, 1.0F, s_.slope, y_stride, stream};
  }
  norm_loops::Terms terms(const NormMemory& memory, const Scratch& scratch) const {
    return {scratch.mean.data(), scratch.factor.data(), memory.beta.data()};
  }
  double* partial_of(const Piece& piece) {
    double* const sums = partial_.data() + piece.number * 2 * s_.groups;
    std::fill_n(sums, 2 * s_.groups, 0.0);
    return sums;
  }
  double values() const { return static_cast<double>(s_.values()); }

  void add_moments(const Piece& piece, ConstSpan x, Scratch& scratch);
  void add_gradients_of(const Piece& piece, ConstSpan x, ConstSpan dy, const NormMemory& memory, Scratch& scratch);
  /// A sample's terms per channel.
  void write_terms(Index row, const NormMemory& memory, Scratch& scratch) const;

  GroupNormSettings s_;
  Index width_;                        // channels of a group
  Index piece_, pieces_;               // positions of a piece, and pieces of a sample
  std::vector<double> partial_;        // per piece: two sums of each group
  std::vector<double> totals_;         // per sample: the same
  std::vector<float> offset_, slope_;  // per sample and group: terms of dx
  int threads_;
  std::vector<Scratch> scratch_;  // per share of the pieces
};

constexpr Index piece_floats = 16384;

GroupNorm::GroupNorm(const GroupNormSettings& settings, Index max_rows)
    : s_(settings),
      width_(settings.channels / settings.groups),
      piece_(std::max<Index>(1, piece_floats / settings.channels)),
      pieces_((settings.positions + piece_ - 1) / piece_),
      partial_(static_cast<std::size_t>(max_rows * pieces_ * 2 * settings.groups)),
      totals_(static_cast<std::size_t>(max_rows * 2 * settings.groups)),
      offset_(static_cast<std::size_t>(max_rows * settings.groups)),
      slope_(offset_.size()),
      threads_(omp_get_max_threads()),
      scratch_(static_cast<std::size_t>(sum_parts(threads_, 2 * settings.channels, most_added_serially)),
               Scratch(static_cast<std::size_t>(settings.channels))) {}

/// As NormSums::add_moments: the loops sum distances from the sample's first position.
void GroupNorm::add_moments(const Piece& piece, ConstSpan x, Scratch& scratch) {
  const float* const shift = x.data() + piece.row * s_.positions * s_.channels;
  std::ranges::fill(scratch.sums, 0.0);
  norm_kernels().moments(piece.last - piece.first, s_.channels, x.data() + piece.first * s_.channels, shift,
                         scratch.sums.data());
  const auto count = static_cast<double>(piece.last - piece.first);
  double* const sums = partial_of(piece);
  for (Index group = 0, c = 0; group < s_.groups; ++group)
    for (const Index end = c + width_; c < end; ++c) {
      const double from = shift[c], sum = scratch.sums[static_cast<std::size_t>(c)];
      sums[group] += sum + count * from;
      sums[s_.groups + group] +=
          scratch.sums[static_cast<std::size_t>(s_.channels + c)] + from * (2 * sum + count * from);
    }
}

void GroupNorm::write_terms(Index row, const NormMemory& memory, Scratch& scratch) const {
  for (Index group = 0, c = 0; group < s_.groups; ++group)
    for (const Index end = c + width_; c < end; ++c) {
      const auto i = static_cast<std::size_t>(c), at = static_cast<std::size_t>(row * s_.groups + group);
      scratch.mean[i] = memory.mean[at];
      scratch.inverse[i] = memory.inverse_deviation[at];
      scratch.factor[i] = memory.gamma[i] * scratch.inverse[i];
      scratch.offset[i] = offset_[at];
      scratch.slope[i] = slope_[at];
    }
}

void GroupNorm::forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) {
  for_pieces(x.shape.n, [&](const Piece& piece, Scratch& scratch) { add_moments(piece, x.data, scratch); });
  reduce_groups(step, x.shape.n, [&](Index at, double sum, double squares) {
    const double mean = sum / values(), variance = std::max(squares / values() - mean * mean, 0.0);
    memory.mean[static_cast<std::size_t>(at)] = static_cast<float>(mean);
    memory.inverse_deviation[static_cast<std::size_t>(at)] =
        static_cast<float>(1.0 / std::sqrt(variance + double{s_.epsilon}));
  });
  const bool stream = streams(y);
  for_pieces(x.shape.n, [&](const Piece& piece, Scratch& scratch) {
    write_terms(piece.row, memory, scratch);
    const float* const from = x.data.data() + piece.first * s_.channels;
    norm_kernels().forward(line(piece, y.stride(), stream), terms(memory, scratch), &from, 1,
                           y.data.data() + piece.first * y.stride());
  });
}

void GroupNorm::add_gradients_of(const Piece& piece, ConstSpan x, ConstSpan dy, const NormMemory& memory,
                                 Scratch& scratch) {
  write_terms(piece.row, memory, scratch);
  std::ranges::fill(scratch.sums, 0.0);
  const Index at = piece.first * s_.channels;
  norm_kernels().gradients(line(piece, s_.channels, false), terms(memory, scratch), x.data() + at, dy.data() + at,
                           scratch.sums.data());
  double* const sums = partial_of(piece);
  const double *dbeta = scratch.sums.data(), *products = dbeta + s_.channels;
  double *dbeta_sum = scratch.gradients.data(), *dgamma_sum = dbeta_sum + s_.channels;
  for (Index group = 0, c = 0; group < s_.groups; ++group) {
    const double inverse = memory.inverse_deviation[static_cast<std::size_t>(piece.row * s_.groups + group)];
    for (const Index end = c + width_; c < end; ++c) {
      const double gamma = memory.gamma[static_cast<std::size_t>(c)];
      dbeta_sum[c] += dbeta[c];
      dgamma_sum[c] += products[c] * inverse;
      sums[group] += gamma * dbeta[c];
      sums[s_.groups + group] += gamma * products[c];
    }
  }
}

// With u = (x - mean) * inverse and g = gamma * the gradient in front of the ReLU: dx = inverse * (g - mean of g - u *
// mean of g u), means over the group.
void GroupNorm::backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                         Span dbeta, Tensor dx) {
  for (Scratch& scratch : scratch_) std::ranges::fill(scratch.gradients, 0.0);
  for_pieces(x.shape.n,
             [&](const Piece& piece, Scratch& scratch) { add_gradients_of(piece, x.data, dy.data, memory, scratch); });
  for (std::size_t c = 0; c < dbeta.size(); ++c) {
    double beta_sum = 0, gamma_sum = 0;
    for (const Scratch& scratch : scratch_) {
      beta_sum += scratch.gradients[c];
      gamma_sum += scratch.gradients[dbeta.size() + c];
    }
    dbeta[c] = static_cast<float>(beta_sum);
    dgamma[c] = static_cast<float>(gamma_sum);
  }
  if (dx.data.empty()) return;
  reduce_groups(step, x.shape.n, [&](Index at, double sum, double products) {
    const auto i = static_cast<std::size_t>(at);
    const double inverse = memory.inverse_deviation[i];
    offset_[i] = static_cast<float>(sum / values());
    slope_[i] = static_cast<float>(inverse * inverse * products / values());
  });
  const bool stream = streams(dx);
  for_pieces(x.shape.n, [&](const Piece& piece, Scratch& scratch) {
    write_terms(piece.row, memory, scratch);
    const Index at = piece.first * s_.channels;
    norm_kernels().data(line(piece, s_.channels, stream), terms(memory, scratch),
                        {scratch.inverse.data(), memory.gamma.data(), scratch.offset.data(), scratch.slope.data()},
                        x.data.data() + at, dy.data.data() + at, dx.data.data() + at);
  });
}

}  // namespace

std::unique_ptr<NormOp> CpuBackend::group_norm(const GroupNormSettings& settings, Index max_rows) {
  return std::make_unique<GroupNorm>(settings, max_rows);
}

}  // namespace mrmf::cpu
