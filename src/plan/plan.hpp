// The plan of a run as data: stages, phases and fusions, its text and its warnings; and that what its networks give
// and what the labels are have one shape.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"

namespace mrmf {

// The plan of a run as data (paper section 3.3 and Figure 2). It is computed from the configuration alone, printed by
// `mrmf plan` before anything runs, stored in the run folder, and followed by the pipeline. Also warnings about
// settings and data that are allowed but rarely meant.

enum class Role { baseline, coarse, dense, finetune };
std::string to_string(Role role);

/// Training of one model at one resolution until its stop rule ends it.
struct Phase {
  int number = 1;  ///< 1-based, among the plan's phases
  int stage = 1;   ///< 1-based; the last stage is the finetune
  Role role = Role::baseline;
  Extent resolution{1, 1, 1};
  Extent grid{1, 1, 1};  ///< blocks of every sample, each on a rank of its own (run.grid)
  int axes = 1;          ///< axes of the data, as far as the configuration tells
  int batch = 1;         ///< per rank, or per sample group
  OptimizerSettings optimizer;
  StopSettings stop;
  SumSettings sums;  ///< over ranks, of its gradients
  CurvePart curve;
  std::uint64_t seed = 1;       ///< initial parameters, when this phase makes a new model
  bool transfers_best = false;  ///< it ends with the model of its best epoch

  /// The plan ends with it.
  bool last() const { return role == Role::baseline || role == Role::finetune; }
  /// The best epoch's model is kept beside the last one.
  bool keeps_best() const { return last() || transfers_best; }
};

/// Transfer of the coarse model's bottom (and what `top` says) to the dense model.
struct Fusion {
  int stage = 1;
  Extent from{1, 1, 1}, to{1, 1, 1};
  int axes = 1;
  TopRule top = TopRule::dense;
  bool matching = false;  ///< progressive: top layers of equal signature are transferred too, the others stay fresh
  MomentTransfer moments = MomentTransfer::reset;
};

/// One pair of models of Figure 2. Without `dense`, the denser model starts untrained (MRT, interpolated top).
struct Stage {
  Phase coarse;
  bool coarse_trained = true;  ///< false: the bottom that it transfers is new
  std::optional<Phase> dense;
  Fusion fuse;
  std::uint64_t dense_seed = 1;
  bool at_once = false;          ///< two teams train the coarse and the dense model at once (paper 3.4)
  std::vector<int> team_shares;  ///< their shares of the ranks, dense and coarse; empty: measured
};

struct Plan {
  MethodName method = MethodName::baseline;
  std::vector<Stage> stages;  ///< none for the baseline
  Phase last;                 ///< baseline or finetune

  std::vector<Phase> phases() const;        ///< in order
  std::vector<Extent> resolutions() const;  ///< coarse to fine
  int largest_batch(
      const Extent& resolution) const;  ///< largest batch of the phases at this resolution; 0: there is none
  const Extent& grid(const Extent& resolution) const;
  bool shares_samples() const;  ///< among ranks, at some resolution
};

/// ConfigError when the method cannot be planned as asked.
Plan make_plan(const Config& config);

/// What a network takes at once of `sample`'s data at a resolution: all of it, or a box (data.patch). ConfigError when
/// the resolution does not divide the sample.
Shape network_input(const Config& config, const Shape& sample, const Extent& resolution);
/// The configuration's network at one of its resolutions, for such inputs there, with room for so many rows. With
/// method.top = "stem" the last resolution's is the configured one behind that layer, and its bottom is new_layers().
NetworkSettings network_for(const Config& config, const Extent& resolution, const Shape& input, Index rows = 1);
/// The plan's network at a resolution of `sample`'s data, with room for the largest batch used there, or for its parts.
/// ConfigError when the resolution does not divide the sample.
NetworkSettings network_settings(const Config& config, const Plan& plan, const Shape& sample, const Extent& resolution);

/// Operations of one sample's forward, or of all its boxes, for each of the plan's phases. ConfigError as above.
std::vector<double> phase_flop(const Config& config, const Plan& plan, const Shape& sample);
/// Operations of one sample's forward in the configured network at the last resolution, which no phase trains with
/// method.top = "stem".
double full_flop(const Config& config, const Plan& plan, const Shape& sample);
/// Arithmetic of the plan's training on such samples, in epochs of the configured network at the last resolution.
/// Batch norms' recalibration and probes come on top (src/run/run_cost.hpp). ConfigError as above.
double training_cost(const Config& config, const Plan& plan, const Shape& sample);
/// Some phase has a stop rule beside its number of epochs, so its cost is an upper bound.
bool may_end_early(const Plan& plan);

/// Numbered lines for people, one per phase or fusion.
std::string to_text(const Plan& plan);
std::string to_json(const Plan& plan);

/// A resolution as the configuration, the plan and the records write it: one factor per axis of the data.
std::vector<Index> factors(const Extent& resolution, int axes);
/// A resolution as text: "[4]", "[1,2,1]".
std::string resolution_text(const Extent& resolution, int axes);
/// "stage 1 (coarse, resolution [4])".
std::string phase_text(const Phase& phase);

/// Warnings from the configuration alone, one line each: keys that nothing reads, validation data that are the training
/// data.
std::vector<std::string> config_warnings(const Config& config);
/// Further warnings for samples of this shape: axes in an order that looks wrong, sizes that earlier versions read
/// differently. `config` is as it was read, with its layers not resolved.
std::vector<std::string> sample_warnings(const Config& config, const Shape& sample);
/// A further one where more samples validate than train.
std::vector<std::string> row_warnings(Index training, Index validation);

/// ConfigError unless the samples have as many channels as data.channels says.
void require_channels(const DataConfig& data, const Shape& sample);

/// "mrmf: warning: ..." on the root's standard error.
void print_warnings(const std::vector<std::string>& lines, const Comm& world);

// What a plan's networks give and what the labels are must be alike.

/// Settles the number of classes, which follows from the network's output, and checks that at each of these resolutions
/// the output and the labels of such data have the same shape. ConfigError with both where they have not, or where
/// training.classes or training.class_weights say otherwise.
void resolve_labels(Config& config, const DatasetShape& shape, const std::vector<Extent>& resolutions);

/// Warnings, one line each, of classes without a label in the training data; `counts` has the labels of each class.
std::vector<std::string> class_warnings(const Config& config, const std::vector<Index>& counts);

}  // namespace mrmf
