// How to get to a model at the last resolution: settings of [method] and their keys.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/config/key_rules.hpp"
#include "src/config/training_config.hpp"

namespace mrmf {

/// Settings of one role (coarse, dense, finetune); empty means "as under [training]".
struct RoleSettings {
  std::optional<int> batch;
  std::optional<double> learning_rate;
  std::optional<RateRule> rule;
  std::optional<int> epochs;
  std::optional<double> threshold;
  std::optional<int> patience;
  std::optional<double> metric;  ///< training.metric of the validation data that ends the phase
  std::optional<Communication> communication;
  bool operator==(const RoleSettings&) const = default;
};

inline void list_settings(KeyList<RoleSettings>& keys) {
  using R = RoleSettings;
  const std::string as_training = "; as under [training] unless set";
  keys.add("batch", &R::batch, within(1, kMostBatch), "samples per rank and step" + as_training);
  keys.add("learning_rate", &R::learning_rate, above(0), "learning rate" + as_training);
  keys.add("rule", &R::rule, one_of(words_of<RateRule>()), "learning-rate rule" + as_training);
  keys.add("communication", &R::communication, one_of(words_of<Communication>()),
           "how the values that ranks add travel" + as_training);
}

inline void list_stops(KeyList<RoleSettings>& keys) {
  using R = RoleSettings;
  keys.add("threshold", &R::threshold, above(0),
           "stop when the training loss falls by less than this per epoch, `patience` times running (paper 3.2)");
  keys.add("patience", &R::patience, at_least(1), "epochs running below the threshold; 3 unless set");
  keys.add("metric", &R::metric, above(0),
           "stop when training.metric of the validation data is as good: as high, or as low where less is better");
  keys.add("epochs", &R::epochs, at_least(1), "largest number of epochs; as under [training] unless set");
}

/// Settings for one fusion stage; `stage` entries of the configuration override the roles' own.
struct StageOverride {
  RoleSettings coarse, dense;
  bool operator==(const StageOverride&) const = default;
};

inline void list_keys(KeyList<StageOverride>& keys) {
  using S = StageOverride;
  keys.add_table("coarse.", &S::coarse, list_settings), keys.add_table("coarse.", &S::coarse, list_stops);
  keys.add_table("dense.", &S::dense, list_settings), keys.add_table("dense.", &S::dense, list_stops);
}

/// `automatic` is chosen for the data at hand (src/method/auto_schedule_and_tune.hpp) before anything is planned.
enum class MethodName { baseline, mrt, mrmf, progressive, automatic };
template <>
inline std::vector<std::string> words_of<MethodName>() {
  return {"baseline", "mrt", "mrmf", "progressive", "auto"};
}
std::string to_string(MethodName name);

enum class TopRule { dense, fresh, interpolated, stem };
template <>
inline std::vector<std::string> words_of<TopRule>() {
  return {"dense", "fresh", "interpolated", "stem"};
}
std::string to_string(TopRule top);
enum class BottomRule { coarse, fresh };
/// Which of a coarse model's epochs a fusion transfers.
enum class TransferEpoch { last, best };
enum class MomentTransfer { reset, carry };
/// When a coarse phase ends: after its epochs (or by its stop rule), or also when it stops paying.
enum class SwitchRule { epochs, slope };
/// What "auto" does about detail that coarse data lack (src/inspection/detail_measurement.hpp).
enum class DetailRule { measure, ignore };
enum class RateScope { phase, run };
enum class TeamMode { sequential, concurrent };

struct MethodConfig {
  MethodName name = MethodName::baseline;
  std::vector<Extent> resolutions{{1, 1, 1}};  ///< coarse to fine; right-aligned as Extents are
  int axes = 0;  ///< factors per resolution, as many as the data have axes; 0: only [1], which suits any data
  DetailRule detail = DetailRule::measure;
  BottomRule bottom = BottomRule::coarse;
  TopRule top = TopRule::dense;
  TransferEpoch transfer = TransferEpoch::last;
  MomentTransfer moments = MomentTransfer::reset;
  RateScope curve = RateScope::phase;
  SwitchRule switch_by = SwitchRule::epochs;
  int probe_epochs = 2;  ///< slope: epochs from one probe of the coarse model to the next
  double probe = 0.125;  ///< slope: share of the next phase's first epoch that a probe trains
  TeamMode teams = TeamMode::sequential;
  std::vector<int> team_shares;  ///< concurrent: shares of the ranks for the dense and the coarse team; empty: measured
  RoleSettings coarse, dense, finetune;
  std::vector<StageOverride> stages;
  std::optional<double> target;               ///< target = { validation_loss = ... }
  std::optional<MetricTarget> metric_target;  ///< target = { validation_dice = ... }
  bool operator==(const MethodConfig&) const = default;
};

/// Keys that have readings of their own: method.resolutions, which also tells the number of axes, and method.stages
/// (layer_keys.cpp); method.target.validation_accuracy and so on (loss_metric_keys.cpp).
void add_resolutions_key(KeyList<MethodConfig>& keys);
void add_stages_key(KeyList<MethodConfig>& keys);
void add_metric_target_keys(KeyList<MethodConfig>& keys);

inline void list_schedule(KeyList<MethodConfig>& keys) {
  using M = MethodConfig;
  keys.add("name", &M::name, one_of(words_of<MethodName>()), "how to get to a model at the last resolution");
  add_resolutions_key(keys);
  keys.add(
      "detail", &M::detail, one_of({"measure", "ignore"}),
      "auto only: measure on training samples, and plan the baseline where the labels depend on detail that averages "
      "of 2 lose; or choose by the shape of a sample alone");
  keys.add(
      "bottom", &M::bottom, one_of({"coarse", "fresh"}),
      "mrmf with one fusion and top = dense only, the bottom layers at fusion: of the coarse model (the paper), or new "
      "ones, and no coarse model is trained: to measure what the top alone adds");
  keys.add(
      "top", &M::top, one_of(words_of<TopRule>()),
      "mrmf only, the top layers at fusion: of the dense model (the paper), new ones, or the coarse ones interpolated; "
      "stem: with two resolutions, the whole coarse model follows behind a new first layer that reads the finer data");
  keys.add("transfer", &M::transfer, one_of({"last", "best"}),
           "which epoch's coarse model a fusion transfers: the last one's, or the best one's by training.monitor");
  keys.add("moments", &M::moments, one_of({"reset", "carry"}), "what becomes of the optimizer's moments at fusion");
  keys.add("curve", &M::curve, one_of({"phase", "run"}),
           "one learning-rate curve per phase, or one over the whole run (constant, cosine and linear rules)");
  keys.add(
      "switch", &M::switch_by, one_of({"epochs", "slope"}),
      "mrmf with one fusion and top = interpolated or stem, when the coarse phase ends: after its epochs, or before "
      "that, when a copy of it, transferred and trained for a short while, shows that full resolution now lowers the "
      "loss by more per arithmetic");
  keys.add("probe_epochs", &M::probe_epochs, at_least(1),
           "switch = slope: coarse epochs from one such copy to the next");
  keys.add("probe", &M::probe, above_to(0, 1),
           "switch = slope: share of the last phase's first epoch for which a copy is trained");
  keys.add(
      "teams", &M::teams, one_of({"sequential", "concurrent"}),
      "mrmf: a stage's coarse and dense model one after the other on all ranks, or at once, each on a team of them");
  keys.add("team_shares", &M::team_shares, at_least(1),
           "concurrent: shares of the ranks for the dense and the coarse team, such as [5, 3]; measured unless set");
}

inline void list_keys(KeyList<MethodConfig>& keys) {
  using M = MethodConfig;
  list_schedule(keys);
  keys.add_table("coarse.", &M::coarse, list_settings), keys.add_table("stop.coarse.", &M::coarse, list_stops);
  keys.add_table("dense.", &M::dense, list_settings), keys.add_table("stop.dense.", &M::dense, list_stops);
  keys.add_table("finetune.", &M::finetune, list_settings), keys.add_table("stop.finetune.", &M::finetune, list_stops);
  add_stages_key(keys);
  keys.add("target.validation_loss", &M::target, above(0),
           "stop the last phase of the plan when the validation loss is this low");
  add_metric_target_keys(keys);
}

/// What keys of [method] and their values were called by earlier versions; they are read in this order.
inline constexpr std::array kFormerMethodKeys{FormerKey{"look_epochs", "probe_epochs"},
                                              FormerKey{"handover", "transfer"}, FormerKey{"split", "team_shares"}};
inline constexpr std::array kFormerMethodValues{FormerValue{"top", "front", "stem"},
                                                FormerValue{"detail", "look", "measure"},
                                                FormerValue{"curve", "stage", "phase"}};

}  // namespace mrmf
