// SGD with momentum, Adam and AdamW over one arena of parameters. The moments are arenas of the same layout, so what a
// fusion or a checkpoint does to parameters it can do to moments with the same places.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "src/config.hpp"

namespace mrmf {

class Optimizer {
 public:
  Optimizer(Backend& backend, const OptimizerSettings& settings, Index count);

  /// Counts a step and writes its numbers into `step`...
  void advance(double learning_rate, Step& step);
  /// ...which does w -= update(dw); the spans are the model's whole arenas.
  void update(const Step& step, Span w, ConstSpan dw);

  /// Moment arenas: {velocity} for sgd, {m, v} for adam and adamw.
  std::vector<Span> moments();
  const OptimizerSettings& settings() const { return settings_; }
  std::uint64_t steps() const { return steps_; }
  void reset();                                    ///< zero moments, step count 0
  void set_steps(std::uint64_t s) { steps_ = s; }  ///< after moments were carried over
  /// Another learning phase may bring other coefficients; the kind of optimizer stays.
  void configure(const OptimizerSettings& settings);

 private:
  Backend* backend_;
  OptimizerSettings settings_;
  Arena first_, second_;
  std::uint64_t steps_ = 0;
};

}  // namespace mrmf
