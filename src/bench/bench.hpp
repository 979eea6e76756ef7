// `mrmf bench training` and `mrmf bench parity`: whole training steps on made-up data.
#pragma once

#include <iosfwd>
#include <memory>

#include "io/output_option.hpp"
#include "src/config/config.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

struct BenchSettings {
  std::string preset = "neuron_inverter";
  Shape sample;    ///< of one sample; n is ignored
  int batch = 0;   ///< 0: Preset::batch
  int steps = 10;  ///< timed, after two that are not
  OptimizerSettings optimizer{};
  OutputOption json;  ///< for the figures
};

/// A model in training on one batch of normal random samples and labels.
class BenchSteps {
 public:
  BenchSteps(Backend& backend, const BenchSettings& settings);

  /// Puts the batch where a step finds it; a device gets it copied anew.
  void load();
  /// One optimizer step on the batch loaded last; its loss is kept. On a device this returns before it is done.
  void step();
  std::vector<float> losses();  ///< per sample, of the steps so far; waits for them

  Learner& learner() { return learner_; }

 private:
  Backend& backend_;
  Learner learner_;
  int batch_;
  std::vector<float> x_, targets_;
  std::vector<std::int64_t> ids_;
  std::unique_ptr<Feed> feed_;
  Feed::Batch loaded_;
  Arena losses_;
  Index done_ = 0;
  int loads_ = 0;
};

/// Steps until records are made and a device's clocks are up.
void warm_up(Backend& backend, BenchSteps& steps);
/// Seconds of the timed steps, a few at a time on a device; with `load`, each on a batch copied anew.
std::vector<double> step_times(Backend& backend, BenchSteps& steps, int timed, bool load);
/// Their median.
double step_seconds(Backend& backend, BenchSteps& steps, int timed, bool load);

/// Prints samples per second, with the batch in the backend's memory and, on a device, also with its loading. The last
/// line is JSON: {"samples_per_second": ..., "step_seconds": ..., "mean_step_seconds": ..., ...}.
void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out);

/// The same steps on `device` and on `host`: both losses per step, and a hash of the device's parameters after them.
/// FaultError when a loss differs by more than `tolerance` of its value.
struct Parity {
  Backend& device;
  Backend& host;
  double tolerance;
};
void bench_parity(const Parity& parity, const BenchSettings& settings, std::ostream& out);

}  // namespace mrmf
