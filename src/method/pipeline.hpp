// The whole method (paper section 3, Figure 2), from the coarsest model to the finetuned one (pipeline.cpp): the fusion
// of two models (fusion.cpp), and two teams of ranks that train both at once (concurrent_teams.cpp).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "layers/network.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "src/training/run_context.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {

// Model fusion (paper section 3.2): the dense model takes the coarse model's bottom layers and, if asked for, its top.
// The top is interpolated along the flattened positions, because the denser model's flattened vector is longer. Or the
// dense model is the coarse one behind a new first layer, and takes all of it (layers/stem.hpp).

/// Linear interpolation of rows x (positions of `from`) x channels to the positions of `to`, axis by axis. Position i
/// of L lies at (i + 1/2) / L; beyond the outermost coarse centres the value is constant. Values are multiplied by
/// `scale`. Both extents are channels-last; x has rows * product(from) * channels floats, y the same for `to`.
struct Resample {
  Index rows = 1, channels = 1;
  Extent from{1, 1, 1}, to{1, 1, 1};
  float scale = 1.0F;
};
void resample(const Resample& how, ConstSpan x, Span y);

/// The contents of an arena of the two models. Moments are laid out as parameters.
enum class Content { params, state, moments };

/// Copies or interpolates every top layer's slice of `coarse` into `dense`. Copies layers of equal signature and
/// interpolates a flat batch norm. Interpolates a dense layer over the flattened vector and scales its weights by
/// coarse / dense length, so that its sums keep their size (gradients, and so moments, keep theirs unscaled). A layer
/// that fits neither way is a ConfigError of require_transferable(), before anything is copied. With only_matching,
/// layers that are not equal are left unchanged instead.
/// The arenas are in the host's memory, and laid out as the networks' own: weights are whole.
struct TopTransfer {
  const Network& coarse;
  const Network& dense;
  bool only_matching = false;
};
void require_transferable(const TopTransfer& networks);
void transfer_top(const TopTransfer& networks, Content content, ConstSpan coarse, Span dense);

/// ConfigError naming the first layer that cannot be transferred. Bottoms must be equal; an interpolated top's layers
/// must be equal or sized by the flattened positions; behind a stem, outputs have no positions. Needs no data, so a
/// plan is checked before anything runs.
void require_fusible(const Network& coarse, const Network& dense, const Fusion& fusion);

/// Makes `dense` the fused model. Afterwards `dense` holds the coarse bottom (parameters and state). Its top is what
/// fuse.top says: its own (trained or fresh), or the coarse model's, interpolated. `coarse` is left with the rest. With
/// TopRule::stem `dense` is the coarse network behind a stem, which reads finer data; `coarse` stays as it is.
///   * Contents move, addresses stay. Where the ranks of a grid hold row-parallel weights, these are put together on
///   the way.
///   * Moments: reset zeroes the fused model's optimizer; carry moves the coarse bottom's moments along, and those of
///     an interpolated top. Bottom and top each keep the age of their moments, for Adam's bias correction. Behind a
///     stem all moments are carried but those of new_layers(), which are the finer network's bottom and begin anew.
/// requires: require_fusible() of the two networks; no carry with fusion.matching. Collective over the models' groups.
void fuse(Backend& backend, ModelState& coarse, ModelState& dense, const Fusion& fusion);

// Teams for a fusion stage whose coarse and dense model are trained at once (paper 3.4). The first ranks are the coarse
// team, the others the dense team.

struct TeamSizes {
  int dense = 0, coarse = 0;
  int ranks() const { return dense + coarse; }
  bool operator==(const TeamSizes&) const = default;
};

/// The teams of method.team_shares; none if they are to be measured. ConfigError for a world of one rank, and when its
/// ranks cannot be shared in exactly this proportion.
std::optional<TeamSizes> given_teams(const MethodConfig& method, int ranks);

/// Teams in proportion to the seconds that each model would take on all ranks; whole ranks, at least one each.
TeamSizes proportional_teams(double dense_seconds, double coarse_seconds, int ranks);

/// ConfigError when a team could not train its model on this many samples: more ranks than samples, a number of shards
/// that is not a multiple of its ranks, a batch norm over a single value, ...
void require_trainable(const Config& config, const Plan& plan, const Stage& stage, const TeamSizes& teams,
                       const DatasetShape& shape);

/// The teams of a stage: as given, or as measured by an earlier start of this run. Otherwise times an epoch of a
/// throwaway model of each kind on all ranks (the log says so). A model's share is the epoch's seconds times its
/// largest number of epochs. Collective over ctx.team, the world.
TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const RunContext& ctx);

/// A run's measurements for cutting its ranks into teams, kept in its folder. A continued run must cut them as before,
/// and one that was stopped while measuring need not measure again what it knows.
struct MeasuredTeams {
  std::map<int, TeamSizes> sizes;                  ///< by stage
  std::map<std::pair<int, Role>, double> seconds;  ///< seconds of an epoch on all ranks, by stage and role
};

/// Reads the measurements in the run's folder; nothing if there are none. Seconds of another configuration or number of
/// ranks do not count. DataError when the file is not ours. Collective over the world.
MeasuredTeams read_measured_teams(const Config& config, Comm& world);
/// A stage's measured teams, if known. ConfigError when they were measured on another number of ranks.
std::optional<TeamSizes> measured_sizes(const MeasuredTeams& measured, int stage, const RunConfig& run, int ranks);
/// Collective over the world.
void write_measured_teams(const MeasuredTeams& measured, const Config& config, Comm& world);

/// Forgets all measurements, for a run that begins anew or is done. The root acts.
void forget_teams(const RunConfig& run, const Comm& world);
/// The same, but only for measurements with another configuration or on other ranks. For a run that was stopped before
/// it had trained anything.
void forget_teams_of_others(const Config& config, const Comm& world);

struct TrainedAtOnce {
  ModelState dense;
  std::array<PhaseRecord, 2> records;  ///< coarse, dense
  double elapsed = 0;                  ///< seconds of the run until the later team arrived
};

/// Trains `coarse` on the coarse team and a new dense model on the other. The team that is ready first waits for the
/// other as long as necessary, and its wait goes into its record. Then two broadcasts over all ranks hand out what the
/// fusion needs: the coarse model's bottom, from the first rank of its team, and the dense model's top. Afterwards all
/// ranks are ready to fuse, but ctx.data is still a team's: load it for all before continuing. `elapsed` is the seconds
/// of the run before. Collective over ctx.team, the world. Throws Stopped when a signal came to a team and both have
/// saved what they trained.
TrainedAtOnce train_at_once(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage,
                            const TeamSizes& teams, ModelState& coarse, double elapsed);

// Probes of a coarse model on its way (method.switch = "slope"): what it is worth at full resolution.

/// Transfers copies of a stage's coarse model, and trains each as the next phase will. The last copy continues as that
/// phase's model, so that nothing of what decided is trained twice.
class CoarseProbe {
 public:
  /// For the plan's only stage. Keeps references.
  CoarseProbe(const RunContext& ctx, const Plan& plan, const Config& config);

  /// Collective. The coarse model stays as it is.
  ProbeResult run(ModelState& coarse);

  /// The model and the state of the last probe; of a new one, which gives the same bits, where an earlier start of the
  /// run had it. Leaves none.
  struct ProbedModel {
    ModelState model;
    TrainState state;
  };
  ProbedModel take(ModelState& coarse);

 private:
  RunLog silent_;
  RunContext ctx_;
  const Plan& plan_;
  const Config& config_;
  std::optional<ProbedModel> begun_;
};

struct Outcome {
  ModelState model_state;           ///< the trained model, at the finest resolution of the plan
  std::vector<PhaseRecord> phases;  ///< in order
  std::vector<EpochRecord> epochs;  ///< epochs of the last phase
  double seconds = 0;               ///< seconds of everything, including validation and coarsening
};

/// Builds, trains and fuses the models. The log gets everything learnt on the way.
Outcome run_pipeline(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
