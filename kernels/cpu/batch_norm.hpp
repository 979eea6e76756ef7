// Batch norm outside its loops over tensors: sums over parts of the batch and over ranks, statistics, and the loops'
// terms per channel.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {

const norm_loops::Kernels& norm_kernels();

/// Numbers per thread of sums that one thread adds.
inline constexpr Index most_added_serially = Index{1} << 14;

class NormSums {
 public:
  explicit NormSums(const NormSettings& settings);

  /// Writes the batch's mean and inverse deviation over all ranks' rows into `memory`, and updates the running ones.
  void update_statistics(const StepContext& step, ConstSpan x, const NormMemory& memory);

  /// The same of an x whose rows come one by one, as they are made, in at most so many parts. start_moments() returns
  /// how many there are, and takes memory unless prepare_moments() did. No two threads add to one part at a time.
  void prepare_moments();
  Index start_moments(Index most);
  void add_rows(Index part, const float* x, Index rows);
  /// For a kernel that adds rows by itself, so many as are told here, to a part that has some already; else null.
  std::optional<direct::Moments> moments_of(Index part, Index rows);
  void update_statistics(const StepContext& step, const NormMemory& memory);

  /// Terms of the batch's statistics in training, of the running ones in evaluation. Valid until this object's next
  /// call.
  norm_loops::Terms terms(const StepContext& step, const NormMemory& memory);

  /// This rank's dgamma and dbeta, from add_up()'s sums of g and of g * (x - mean).
  void parameter_gradients(const NormMemory& memory, Span dgamma, Span dbeta) const;
  /// The terms of dx, from the same sums over all ranks, after terms() of the step. Valid until this object's next
  /// call.
  norm_loops::DataTerms data_terms(const StepContext& step, Index rows, const NormMemory& memory);

  int threads() const { return threads_; }
  /// Shares out the work in parts, then adds up their sums (two per channel) in the order of the parts:
  /// add(first, last, sums).
  template <class Add>
  void add_up(Index count, const Add& add) {
    const Index size = 2 * channels_, parts = std::clamp<Index>(count, 1, parts_);
    share_out(parts, threads_, [&](Index part, Index end, int) {
      for (; part < end; ++part) {
        std::fill_n(partial_.data() + part * size, size, 0.0);
        add(count * part / parts, count * (part + 1) / parts, partial_.data() + part * size);
      }
    });
    std::copy_n(partial_.data(), size, sums_.data());
    for (Index part = 1; part < parts; ++part)
      for (Index i = 0; i < size; ++i) sums_[i] += partial_[part * size + i];
  }

 private:
  float inverse_root(double variance) const;
  void add_moments(ConstSpan x);
  void take_statistics(const StepContext& step, const NormMemory& memory);  // from sums_

  NormSettings settings_;
  Index channels_;
  int threads_;
  Index parts_;
  std::vector<double> partial_;  // per part: two sums per channel
  std::vector<double> sums_;     // two sums per channel, then the number of rows
  std::vector<float> shifts_;    // per part: its first row, from which add_rows() counts
  Index moment_parts_ = 0;
  std::vector<Index> rows_;  // per part: those added
  std::vector<float> factor_, mean_, ones_, offset_, slope_;
};

/// The gradient of a batch norm's input, as the passes below make it of that of their output.
struct NormGradient {
  norm_loops::Terms terms;
  norm_loops::DataTerms data;  ///< not for add_gradients()
  ConstTensor x, dy;
  /// With a shortcut. y: the output, read only with an activation. dshortcut: where add_gradients() puts the gradient
  /// of the sum, which is the shortcut's. It may be over dy, whose place it takes in what follows.
  ConstTensor y{};
  Tensor dshortcut{};
};

/// Batch norm, an activation (slope 1: none) and average pooling, by lines of positions. Or, without pooling, a batch
/// norm to whose output a shortcut is added before the activation.
class NormPasses {
 public:
  explicit NormPasses(const NormReluPool& settings, bool shortcut = false);
  static bool serve(const NormReluPool& settings);

  NormSums& sums() { return sums_; }
  /// kept: what of forward saves add_gradients() a pass over x, so many floats where that is worth while (else 0).
  Index kept_floats(Index rows) const;
  /// shortcut: what is added, if the constructor was told of one, else empty; y may be over it.
  void forward(const norm_loops::Terms& terms, ConstTensor x, ConstTensor shortcut, Tensor y, Span kept = {});
  void add_gradients(NormGradient& of, ConstSpan kept = {});  ///< sums of them in sums()
  void data_gradient(const NormGradient& of, Tensor dx);      ///< may be over x
  /// dx of lines [first, last), counted over all samples, which begins at `dx`.
  void data_lines(const NormGradient& of, Index first, Index last, float* dx) const {
    data_lines(line_, of, first, last, dx);
  }

 private:
  static constexpr Index most_lines = 16;  // input lines under an output line

  void forward_adding(const norm_loops::Terms& terms, ConstTensor x, ConstTensor shortcut, Tensor y);
  void add_gradients_adding(NormGradient& of);
  Index lines_under(Index line, const float* x, std::array<const float*, most_lines>& lines) const;
  const float* gradient_of(Index line, const float* dy) const;
  void data_lines(const norm_loops::Line& form, const NormGradient& of, Index first, Index last, float* dx) const;
  Index in_line() const { return line_.positions * line_.channels; }

  const norm_loops::Kernels& loops_;
  PoolGeometry pool_;
  Extent out_;
  norm_loops::Line line_{};
  std::optional<float> slope_behind_shortcut_;  // of the activation there; line_, the norm's own, has none then
  NormSums sums_;
};

}  // namespace mrmf::cpu
