// How models are trained: settings of [training] and their keys. When phases end is here, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/operations.hpp"
#include "layers/parts.hpp"
#include "src/config/key_rules.hpp"
#include "src/config/metric.hpp"

namespace mrmf {

enum class OptimizerKind { adam, adamw, sgd, lion };
template <>
inline std::vector<std::string> words_of<OptimizerKind>() {
  return {"adam", "adamw", "sgd", "lion"};
}
std::string to_string(OptimizerKind kind);

enum class RateRule { constant, cosine, linear, piecewise, plateau };
template <>
inline std::vector<std::string> words_of<RateRule>() {
  return {"constant", "cosine", "linear", "piecewise", "plateau"};
}
std::string to_string(RateRule rule);

/// How the values that ranks add travel (docs/guide/communication.md). The last four are of Lion's directions alone.
enum class Communication { fp32, bf16, int8, levels8, levels8_l0, levels4, vote, automatic };
template <>
inline std::vector<std::string> words_of<Communication>() {
  return {"fp32", "bf16", "int8", "levels8", "levels8-l0", "levels4", "vote", "auto"};
}
std::string to_string(Communication scheme);

/// Whose Lion's momenta are. `shared`: gradients are added, so they are the same on all ranks. Else each rank has one
/// of its own gradients, and directions are added: they stay apart, or are averaged every few steps, or ever more
/// rarely.
enum class MomentaRule { shared, local, every, spaced };
template <>
inline std::vector<std::string> words_of<MomentaRule>() {
  return {"shared", "local", "every", "spaced"};
}

struct MomentaSettings {
  MomentaRule rule = MomentaRule::shared;
  int every = 100;   ///< steps from one average to the next
  int spacing = 16;  ///< spaced: 2^(j / spacing) steps from the j-th average to the next
  /// Names of the parameters whose momenta are averaged, with * for any characters: "dense*". Empty: all.
  std::vector<std::string> tensors{};
  /// Whether they are averaged at some steps.
  bool averaged() const { return rule == MomentaRule::every || rule == MomentaRule::spaced; }
  bool operator==(const MomentaSettings&) const = default;
};

inline void list_keys(KeyList<MomentaSettings>& keys) {
  using M = MomentaSettings;
  keys.add(
      "rule", &M::rule, one_of(words_of<MomentaRule>()),
      "lion: one momentum for all ranks, or one of each rank's own gradients, which is then averaged never, `every` so "
      "many steps, or at steps that are `spaced` ever wider");
  keys.add("every", &M::every, within(1, kMostSteps), "every: steps from one average of the momenta to the next");
  keys.add("spacing", &M::spacing, within(1, kMostSteps),
           "spaced: k, where 2^(j/k) steps lie between the j-th average and the next");
  keys.add("tensors", &M::tensors, {},
           "every, spaced: names of the parameters whose momenta are averaged, * standing for any characters, such as "
           "\"dense*\"; those of all unless set");
}

/// How the gradients of a phase are added over ranks.
struct SumSettings {
  Communication communication = Communication::fp32;
  bool error_feedback = false;  ///< what a sum's codes leave out is added to the next one's values
  bool full_levels = false;     ///< each worker's levels fill a byte, or half of one, in place of their sum
  MomentaSettings momenta{};
  /// Whether the directions of the ranks' own momenta are added, in place of gradients.
  bool adds_directions() const { return momenta.rule != MomentaRule::shared; }
  /// Whether it is gradients that are added, in float32.
  bool adds_plainly() const { return communication == Communication::fp32 && !adds_directions(); }
  bool operator==(const SumSettings&) const = default;
};

inline void list_keys(KeyList<SumSettings>& keys) {
  using S = SumSettings;
  keys.add(
      "communication", &S::communication, one_of(words_of<Communication>()),
      "how the values that ranks add travel: in float32, bfloat16 or blocks of integers; for lion also as levels in 8 "
      "or 4 bits, or as votes of a bit; \"auto\" measures which pays");
  keys.add("error_feedback", &S::error_feedback, {},
           "bf16, int8: what a sum's codes leave out is added to the next one's values");
  keys.add(
      "full_levels", &S::full_levels, {},
      "levels8, levels8-l0, levels4: each rank's levels go to 127 or 7, for the same bytes; else those of all ranks "
      "add up to no more than 127 or 15, as in Lion Cub");
  keys.add_table("momenta.", &S::momenta, list_keys);
}

/// These settings with another scheme of communication. Momenta become each rank's own where the new scheme needs that,
/// and shared where only the old one did. Errors are no longer fed back where the new scheme leaves nothing out.
SumSettings in_another_way(const SumSettings& sums, Communication scheme);

/// Lion's beta2 where a configuration gives none: its momentum is ten times as short-lived as Adam's mean square.
constexpr double kLionBeta2 = 0.99;

struct OptimizerSettings {
  OptimizerKind name = OptimizerKind::adam;
  double learning_rate = 1e-3;
  RateRule rule = RateRule::constant;
  double warmup = 0;                ///< epochs of linear warm-up: rate * (epoch + 1) / warmup, as the paper's code does
  std::vector<double> boundaries;   ///< piecewise: epochs at which the rate is multiplied by `factor`
  double factor = 0.1;              ///< piecewise and plateau
  int patience = 8, cooldown = 2;   ///< plateau: epochs
  double plateau_threshold = 1e-4;  ///< plateau: relative improvement that counts
  double momentum = 0.9;            ///< sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< a configuration that gives Lion no beta2 has kLionBeta2
  double weight_decay = 0;                            ///< sgd, adam: L2 in the gradient; adamw, lion: decoupled
  std::optional<int> tuned_batch;  ///< rows of a step, over all ranks, for which the rate was tuned; empty: not known
  bool operator==(const OptimizerSettings&) const = default;
};

inline void list_keys(KeyList<OptimizerSettings>& keys) {
  using O = OptimizerSettings;
  keys.add("name", &O::name, one_of(words_of<OptimizerKind>()), "optimizer");
  keys.add("learning_rate", &O::learning_rate, above(0), "learning rate");
  keys.add("tuned_batch", &O::tuned_batch, at_least(1),
           "rows of a step, over all ranks, for which mrmf tune has found the rate; another one is a warning");
  keys.add("rule", &O::rule, one_of(words_of<RateRule>()), "learning-rate rule");
  keys.add("warmup", &O::warmup, at_least(0), "epochs of linear warm-up: rate * (epoch + 1) / warmup");
  keys.add("boundaries", &O::boundaries, above(0), "piecewise: epochs at which the rate is multiplied by `factor`");
  keys.add("factor", &O::factor, above(0), "piecewise, plateau: multiplies the rate");
  keys.add("patience", &O::patience, at_least(0), "plateau: epochs without improvement before the rate falls");
  keys.add("cooldown", &O::cooldown, at_least(0), "plateau: epochs to wait after the rate fell");
  keys.add("plateau_threshold", &O::plateau_threshold, from_below(0, 1), "plateau: relative improvement that counts");
  keys.add("momentum", &O::momentum, from_below(0, 1), "sgd: momentum");
  keys.add("beta1", &O::beta1, from_below(0, 1),
           "adam, adamw: decay of the mean; lion: weight of the momentum in a step's direction");
  keys.add("beta2", &O::beta2, from_below(0, 1),
           "adam, adamw: decay of the mean square; lion: of the momentum, 0.99 unless given");
  keys.add("epsilon", &O::epsilon, above(0), "adam, adamw: added to the root");
  keys.add("weight_decay", &O::weight_decay, at_least(0), "sgd, adam: added to the gradient; adamw, lion: decoupled");
}

/// What tells whether one epoch's model is better than another's: the validation loss, or training.metric.
enum class Monitor { loss, metric };

/// Ends a phase when validation has not improved for so many epochs. 0: it never does.
struct EarlyStopping {
  int patience = 0;
  double least_change = 0;  ///< relative to the best value so far; a smaller one is no improvement
  bool operator==(const EarlyStopping&) const = default;
};

inline void list_keys(KeyList<EarlyStopping>& keys) {
  keys.add("patience", &EarlyStopping::patience, at_least(0),
           "end a phase after so many epochs running without a better `monitor`; 0 for never");
  keys.add("least_change", &EarlyStopping::least_change, from_below(0, 1),
           "early stopping: a change that is smaller, relative to the best value so far, is no improvement");
}

/// When a phase of the plan ends: whichever comes first. `epochs` is always the upper bound.
struct StopSettings {
  int epochs = 100;
  std::optional<double> threshold;  ///< paper 3.2: training-loss reduction per epoch that still counts
  int patience = 3;                 ///< paper 3.2: consecutive epochs below it
  std::optional<double> target;     ///< validation loss; method.target sets it for the plan's last phase
  std::optional<MetricTarget>
      metric_target;             ///< the value that a metric must reach: a role's, or method.target's in the last phase
  EarlyStopping early_stopping;  ///< by `monitor`
  Monitor monitor = Monitor::loss;  ///< also tells which epoch was the best
  int probe_epochs = 0;             ///< epochs from one probe to the next; 0: no probes
  /// Whether the phase may end before its epochs are done.
  bool early() const { return ends_by_loss() || probe_epochs > 0; }
  /// Whether a loss or a metric of its own epochs may end it early; probes are no epochs of its own.
  bool ends_by_loss() const { return threshold || target || metric_target || early_stopping.patience > 0; }
};

/// A part of a network: its layers, and what its optimizer has of its own; empty: as training.optimizer.
struct PartConfig {
  std::string name;
  std::vector<std::string> layers;  ///< "encoder*" for all that begin with encoder
  std::optional<OptimizerKind> optimizer;
  std::optional<double> learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
  OptimizerSettings settings(const OptimizerSettings& common) const;
  bool operator==(const PartConfig&) const = default;
};

inline void list_keys(KeyList<PartConfig>& keys) {
  using P = PartConfig;
  keys.add("name", &P::name, {}, "unique");
  keys.add("layers", &P::layers, {}, "names of its layers, \"encoder*\" for all that begin with encoder");
  keys.add("optimizer", &P::optimizer, one_of(words_of<OptimizerKind>()), "its own; training.optimizer's unless set");
  keys.add("learning_rate", &P::learning_rate, above(0), "learning rate, which changes as the common one does");
  keys.add("momentum", &P::momentum, from_below(0, 1), "sgd: momentum");
  keys.add("beta1", &P::beta1, from_below(0, 1), "as training.optimizer.beta1");
  keys.add("beta2", &P::beta2, from_below(0, 1), "as training.optimizer.beta2");
  keys.add("epsilon", &P::epsilon, above(0), "adam, adamw: added to the root");
  keys.add("weight_decay", &P::weight_decay, at_least(0), "sgd, adam: added to the gradient; adamw, lion: decoupled");
}

/// What a network of several parts trains for (layers/parts.hpp).
struct PartsConfig {
  std::vector<LossTerm> terms;
  std::vector<PartConfig> parts;
  std::vector<Turn> turns;
  PartSettings network() const;
  bool operator==(const PartsConfig&) const = default;
};

struct TrainingConfig {
  OptimizerSettings optimizer;
  PartsConfig parts;
  LossSettings loss;              ///< with the weights of classes
  bool balanced_weights = false;  ///< class_weights = "balanced": from the training labels, before training
  std::optional<int> classes;     ///< labels are 0 to classes - 1; empty: as many as the network has output channels
  std::optional<int> ignore;      ///< a label that says that there is none
  /// Labels that stand for class 0, 1, ...: numbers as texts, or words; empty: the classes' numbers.
  std::vector<std::string> class_values;
  std::optional<Metric> metric;  ///< measured after every epoch; empty: the task's own (src/training/metrics.hpp)
  std::string metric_class;  ///< the name of the class or output that `metric` is of, until names are known; then empty
  Monitor monitor = Monitor::loss;
  std::optional<Metric> monitored;  ///< what `monitor` has named, until the configuration is complete: then `metric`
  EarlyStopping early_stopping;
  double clip_norm = 0;  ///< largest L2 norm of all gradients together; 0: any
  SumSettings sums;
  bool update_in_place = false;  ///< untied weights are updated where their gradient is computed, which nobody keeps
  bool keep_best = true;         ///< keep the best epoch's model beside the last one's
  int accumulate = 1;            ///< micro-batches of a step, computed one after the other
  int batch = 512;               ///< per rank
  std::uint64_t seed = 1;
  int epochs = 100;               ///< upper bound of every phase unless its role sets another
  bool global_batch_norm = true;  ///< batch_norm = "global" | "local"
  int precise_batch_norm = 0;  ///< batches that recalibrate batch norms at a phase's end; 0: the running averages stay
  /// Rows of a batch of this size that are computed at once: of its largest micro-batch.
  int rows_at_once(int of_batch) const { return (of_batch + accumulate - 1) / accumulate; }
  bool operator==(const TrainingConfig&) const = default;
};

inline constexpr double kMostLabel = 65535;

/// Keys of a task that have readings of their own (loss_metric_keys.cpp).
void add_loss_key(KeyList<TrainingConfig>& keys);
void add_class_values_key(KeyList<TrainingConfig>& keys);
void add_class_weights_key(KeyList<TrainingConfig>& keys);
void add_metric_keys(KeyList<TrainingConfig>& keys);  // training.metric and training.monitor
/// The lists of a network of several parts (parts_keys.cpp): training.terms, parts and turns.
void add_parts_keys(KeyList<TrainingConfig>& keys);

inline void list_keys(KeyList<TrainingConfig>& keys) {
  using T = TrainingConfig;
  keys.add_table("optimizer.", &T::optimizer, list_keys);
  add_loss_key(keys);
  keys.add(
      "classes", &T::classes, within(2, kMostLabel),
      "number of classes, whose labels are 0, 1, ...; as many as the network's last layer has channels unless set");
  add_class_values_key(keys);
  add_class_weights_key(keys);
  keys.add("ignore", &T::ignore, within(-kMostLabel, kMostLabel),
           "a label that says that there is none: such samples or positions count neither in the loss nor in metrics");
  add_metric_keys(keys);
  add_parts_keys(keys);
  keys.add("keep_best", &T::keep_best, {},
           "whether the best epoch's model is kept beside the last one's, which takes 4 bytes of memory a parameter");
  keys.add_table("early_stopping.", &T::early_stopping, list_keys);
  keys.add("clip_norm", &T::clip_norm, at_least(0),
           "largest L2 norm of all gradients together, to which a step's larger ones are scaled; 0 for any");
  keys.add_table("", &T::sums, list_keys);
  keys.add("accumulate", &T::accumulate, within(1, kMostBatch),
           "micro-batches of a step, which a rank computes one after the other: activations take so much less memory");
  keys.add("update_in_place", &T::update_in_place, {},
           "sgd: untied weights are updated where their gradient is computed, without memory for it");
  keys.add("batch", &T::batch, within(1, kMostBatch), "samples per rank and step");
  keys.add("seed", &T::seed, at_least(0), "of parameters, sample order and dropout");
  keys.add("epochs", &T::epochs, at_least(1), "largest number of epochs of every phase of the plan");
  keys.add("batch_norm", &T::global_batch_norm, one_of({"local", "global"}),
           "batch-norm statistics: of each rank's rows, or of the batch over all ranks");
  keys.add(
      "precise_batch_norm", &T::precise_batch_norm, at_least(0),
      "batches from which batch norms are recalibrated, without training, before a validation that may end a phase; "
      "0 keeps the running averages");
}

}  // namespace mrmf
