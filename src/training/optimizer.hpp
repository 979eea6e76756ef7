// SGD with momentum, Adam, AdamW and Lion over one arena of parameters. The moments are arenas of the same layout, so a
// fusion or a checkpoint can treat moments as it treats parameters at the same offsets.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "layers/layer.hpp"
#include "src/config/config.hpp"
#include "src/run/train_state.hpp"

namespace mrmf {

/// Number of moments per parameter.
constexpr int moment_count(OptimizerKind kind) {
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw ? 2 : 1;
}

/// Moments of an optimizer that may leave out the velocity of plain SGD, which nobody reads: training.update_in_place.
constexpr int moment_count(const OptimizerSettings& optimizer, bool in_place) {
  const bool plain = optimizer.name == OptimizerKind::sgd && optimizer.momentum == 0;
  return in_place && plain ? 0 : moment_count(optimizer.name);
}

class Optimizer {
 public:
  /// The first `bottom` of the `count` parameters are the bottom's. in_place: see moment_count().
  Optimizer(Backend& backend, const OptimizerSettings& settings, Index count, Index bottom = 0, bool in_place = false);

  /// Counts a step and writes its numbers into `step`, for the updates that follow.
  void advance(double learning_rate, StepContext& step);
  /// Does w -= update(dw) for all parameters; the spans are the model's whole arenas.
  void update(const StepContext& step, Span w, ConstSpan dw) { update(step, w, dw, {0, std::ssize(w)}); }
  /// Updates one span of the parameters; w and dw are the whole arenas.
  void update(const StepContext& step, Span w, ConstSpan dw, const ArenaSpan& span) {
    update_at(span, step, span_at(w, span),
              dw.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)));
  }
  /// The same of the parameters w, which have this span among all.
  void update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw);

  /// The same for parameters that have settings of their own; their moments have seen so many updates, and this one.
  void update_apart(const OptimizerSettings& settings, std::uint64_t earlier, double learning_rate, StepContext step,
                    Span w, ConstSpan dw, const ArenaSpan& span);

  /// Moment arenas: {velocity} for sgd, or none, {m} for lion, {m, v} for adam and adamw.
  std::vector<Span> moments();
  const OptimizerSettings& settings() const { return settings_; }
  const MomentAges& ages() const { return ages_; }
  std::uint64_t steps() const { return std::max(ages_.bottom, ages_.top); }
  void reset();                                            ///< zero moments of age 0
  void set_ages(const MomentAges& ages) { ages_ = ages; }  ///< after moments were written
  /// The next phase may have other coefficients; the kind of optimizer stays.
  void configure(const OptimizerSettings& settings);

 private:
  void update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw, OptimizerKind kind,
                 bool one_age);

  Backend* backend_;
  OptimizerSettings settings_;
  Arena first_, second_;
  Index bottom_;
  int moments_;
  MomentAges ages_;
};

}  // namespace mrmf
