// Keys of training: the optimizer, batches and epochs, when a phase ends. Paths are within [training]; defaults:
// TrainingConfig in config.hpp. Keys of the loss are in loss_metric_keys.cpp.
#include <algorithm>
#include <utility>

#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

void add_optimizer(Keys<TrainingConfig>& keys) {
  const std::string path = "optimizer.";
  add_key(keys, path + "name", MRMF_FIELD(optimizer.name), one_of(words_of<OptimizerKind>()), "optimizer");
  add_key(keys, path + "learning_rate", MRMF_FIELD(optimizer.learning_rate), above(0), "learning rate");
  add_key(keys, path + "tuned_batch", MRMF_FIELD(optimizer.tuned_batch), at_least(1),
          "rows of a step, over all ranks, for which mrmf tune has found the rate; another one is a warning");
  add_key(keys, path + "rule", MRMF_FIELD(optimizer.rule), one_of(words_of<RateRule>()), "learning-rate rule");
  add_key(keys, path + "warmup", MRMF_FIELD(optimizer.warmup), at_least(0),
          "epochs of linear warm-up: rate * (epoch + 1) / warmup");
  add_key(keys, path + "boundaries", MRMF_FIELD(optimizer.boundaries), above(0),
          "piecewise: epochs at which the rate is multiplied by `factor`");
  add_key(keys, path + "factor", MRMF_FIELD(optimizer.factor), above(0), "piecewise, plateau: multiplies the rate");
  add_key(keys, path + "patience", MRMF_FIELD(optimizer.patience), at_least(0),
          "plateau: epochs without improvement before the rate falls");
  add_key(keys, path + "cooldown", MRMF_FIELD(optimizer.cooldown), at_least(0),
          "plateau: epochs to wait after the rate fell");
  add_key(keys, path + "plateau_threshold", MRMF_FIELD(optimizer.plateau_threshold), from_below(0, 1),
          "plateau: relative improvement that counts");
  add_key(keys, path + "momentum", MRMF_FIELD(optimizer.momentum), from_below(0, 1), "sgd: momentum");
  add_key(keys, path + "beta1", MRMF_FIELD(optimizer.beta1), from_below(0, 1),
          "adam, adamw: decay of the mean; lion: weight of the momentum in a step's direction");
  add_key(keys, path + "beta2", MRMF_FIELD(optimizer.beta2), from_below(0, 1),
          "adam, adamw: decay of the mean square; lion: of the momentum, 0.99 unless given");
  add_key(keys, path + "epsilon", MRMF_FIELD(optimizer.epsilon), above(0), "adam, adamw: added to the root");
  add_key(keys, path + "weight_decay", MRMF_FIELD(optimizer.weight_decay), at_least(0),
          "sgd, adam: added to the gradient; adamw, lion: decoupled");
}

}  // namespace

template <>
std::vector<std::string> words_of<OptimizerKind>() {
  return {"adam", "adamw", "sgd", "lion"};
}
std::string to_string(OptimizerKind kind) { return words_of<OptimizerKind>().at(static_cast<std::size_t>(kind)); }

template <>
std::vector<std::string> words_of<RateRule>() {
  return {"constant", "cosine", "linear", "piecewise", "plateau"};
}
std::string to_string(RateRule rule) { return words_of<RateRule>().at(static_cast<std::size_t>(rule)); }

Keys<TrainingConfig> training_keys() {
  Keys<TrainingConfig> keys;
  add_optimizer(keys);
  for (Key<TrainingConfig>& key : task_keys()) keys.push_back(std::move(key));
  for (Key<TrainingConfig>& key : parts_keys()) keys.push_back(std::move(key));
  add_key(keys, "keep_best", MRMF_FIELD(keep_best), {},
          "whether the best epoch's model is kept beside the last one's, which takes 4 bytes of memory a parameter");
  add_key(keys, "early_stopping.patience", MRMF_FIELD(early_stopping.patience), at_least(0),
          "end a phase after so many epochs running without a better `monitor`; 0 for never");
  add_key(keys, "early_stopping.least_change", MRMF_FIELD(early_stopping.least_change), from_below(0, 1),
          "early stopping: a change that is smaller, relative to the best value so far, is no improvement");
  add_key(keys, "clip_norm", MRMF_FIELD(clip_norm), at_least(0),
          "largest L2 norm of all gradients together, to which a step's larger ones are scaled; 0 for any");
  for (Key<TrainingConfig>& key : communication_keys()) keys.push_back(std::move(key));
  add_key(keys, "accumulate", MRMF_FIELD(accumulate), within(1, kMostBatch),
          "micro-batches of a step, which a rank computes one after the other: activations take so much less memory");
  add_key(keys, "update_in_place", MRMF_FIELD(update_in_place), {},
          "sgd: untied weights are updated where their gradient is computed, without memory for it");
  add_key(keys, "batch", MRMF_FIELD(batch), within(1, kMostBatch), "samples per rank and step");
  add_key(keys, "seed", MRMF_FIELD(seed), at_least(0), "of parameters, sample order and dropout");
  add_key(keys, "epochs", MRMF_FIELD(epochs), at_least(1), "largest number of epochs of every phase of the plan");
  add_key(keys, "batch_norm", MRMF_FIELD(global_batch_norm), one_of({"local", "global"}),
          "batch-norm statistics: of each rank's rows, or of the batch over all ranks");
  add_key(
      keys, "precise_batch_norm", MRMF_FIELD(precise_batch_norm), at_least(0),
      "batches from which batch norms are recalibrated, without training, before a validation that may end a phase; "
      "0 keeps the running averages");
  return keys;
}

void check_training(const Config& config, const KeyLocations& locations, const std::string& origin) {
  const TrainingConfig& training = config.training;
  const KeyOrigin keys{locations, origin};
  const auto fail = [&](const std::string& key, const std::string& message) { keys.fail(key, message); };
  if (training.monitor == Monitor::metric && !training.metric)
    fail("training.monitor", "training.monitor = \"metric\" looks at training.metric, which is not set; set it to " +
                                 metric_choices(training.loss.task()));
  if (training.early_stopping.least_change > 0 && training.early_stopping.patience == 0)
    fail("training.early_stopping.least_change",
         "training.early_stopping.least_change belongs to training.early_stopping.patience, which is 0; set that too, "
         "or remove it");
  if (config.method.transfer == TransferEpoch::best && !training.keep_best)
    fail("method.transfer",
         "method.transfer = \"best\" needs the best epoch's model, which training.keep_best = false does not keep; "
         "remove one");
  if (config.method.transfer == TransferEpoch::best && config.method.moments == MomentTransfer::carry)
    fail(
        "method.transfer",
        "method.transfer = \"best\" does not go with method.moments = \"carry\": the moments are the last epoch's; use "
        "\"reset\"");
  if (training.update_in_place) {
    const auto refuse = [&](const std::string& what) {
      fail("training.update_in_place",
           "training.update_in_place updates a weight as soon as its gradient is known, and " + what + "; remove one");
    };
    if (training.optimizer.name != OptimizerKind::sgd)
      refuse("training.optimizer.name = \"" + to_string(training.optimizer.name) + "\" is not sgd");
    if (training.clip_norm > 0) refuse("training.clip_norm needs all gradients first");
    if (training.accumulate > 1) refuse("training.accumulate adds those of several parts first");
    if (!training.sums.adds_plainly()) refuse("training.communication and momenta change the sums of gradients first");
    if (config.method.teams == TeamMode::concurrent) refuse("method.teams = \"concurrent\" adds those of its ranks");
  }
  if (!config.model.start.empty() && config.method.teams == TeamMode::concurrent)
    fail("model.start",
         "model.start does not go with method.teams = \"concurrent\", which begins with two models at once; set "
         "\"sequential\", or remove it");
  if (!config.model.start.empty() && config.method.bottom == BottomRule::fresh)
    fail("model.start",
         "model.start does not go with method.bottom = \"fresh\", which asks for new layers; remove one");
}

// Keys about sums over ranks: how values travel, and whose Lion's momenta are. Paths are within [training]; defaults:
// SumSettings in config.hpp.

namespace {

// Whether only the sign of a sum comes back.
bool sends_signs(Communication scheme) {
  using enum Communication;
  return scheme == levels8 || scheme == levels8_l0 || scheme == levels4 || scheme == vote;
}

bool sends_levels(const SumSettings& sums) {
  return sends_signs(sums.communication) && sums.communication != Communication::vote;
}

// Whether a sum's codes leave something out that a later one can make good.
bool leaves_errors(const SumSettings& sums) {
  const bool rounds = sums.communication == Communication::bf16 || sums.communication == Communication::int8;
  return rounds && !sums.adds_directions();
}

/// A way of some phases, and the key that says so.
struct Way {
  std::string key;
  SumSettings sums;
  std::string text() const { return key + " = \"" + to_string(sums.communication) + "\""; }
};

std::vector<Way> ways_of(const Config& config) {
  const SumSettings& sums = config.training.sums;
  std::vector<Way> ways{{"training.communication", sums}};
  const auto add = [&](const std::string& table, const RoleSettings& role) {
    if (role.communication) ways.push_back({table + ".communication", in_another_way(sums, *role.communication)});
  };
  const MethodConfig& method = config.method;
  add("method.coarse", method.coarse), add("method.dense", method.dense), add("method.finetune", method.finetune);
  for (std::size_t i = 0; i < method.stages.size(); ++i) {
    const std::string table = "method.stages[" + std::to_string(i) + "].";
    add(table + "coarse", method.stages[i].coarse), add(table + "dense", method.stages[i].dense);
  }
  return ways;
}

/// Refuses keys with the location where they were set.
class Checks {
 public:
  Checks(const Config& config, const KeyLocations& locations, const std::string& origin)
      : config_(config), training_(config.training), keys_{locations, origin} {}

  void of_way(const Way& way) const {
    const SumSettings& sums = way.sums;
    const std::string rule = "training.momenta.rule";
    if (sends_signs(sums.communication) && !lion())
      fail(way.key, way.text() +
                        " adds signs and levels, which only the optimizer \"lion\" can use; set "
                        "training.optimizer.name = \"lion\", or take bf16 or int8");
    if (sends_signs(sums.communication) && !sums.adds_directions())
      fail(rule, way.text() +
                     " adds the directions of each rank's own momentum; set training.momenta.rule to local, every or "
                     "spaced");
    if (sums.adds_directions() && !lion())
      fail(rule, rule + " is about the momenta of the optimizer \"lion\"; remove it, or set training.optimizer.name");
    if (sums.communication == Communication::automatic && sums.adds_directions())
      fail(rule, way.text() + " chooses whose momenta are as well; remove " + rule);
    if (sums.adds_directions() && training_.clip_norm > 0)
      fail("training.clip_norm",
           "training.clip_norm needs the sum of all gradients, and with each rank's own momentum there is none; set it "
           "to 0, or training.momenta.rule to shared");
    const auto cuts = [](const Extent& grid) { return product(grid) > 1; };
    if (sums.communication != Communication::automatic && !sums.adds_plainly() &&
        std::ranges::any_of(config_.run.grid, cuts))
      fail(way.key, "run.grid does not go with " + (sums.adds_directions() ? rule + " other than shared" : way.text()) +
                        ", whose ranks have samples of their own; use fp32 and shared momenta, or no grid");
  }

  void of_all(const std::vector<Way>& ways) const {
    if (training_.sums.error_feedback && std::ranges::none_of(ways, leaves_errors, &Way::sums))
      fail("training.error_feedback",
           "training.error_feedback belongs to sums of gradients in bf16 or int8 (training.communication); remove it");
    if (training_.sums.full_levels && std::ranges::none_of(ways, sends_levels, &Way::sums))
      fail("training.full_levels",
           "training.full_levels belongs to levels8, levels8-l0 and levels4 (training.communication); remove it");
    const std::vector<std::string>& tensors = training_.sums.momenta.tensors;
    if (std::ranges::find(tensors, "") != tensors.end())
      fail("training.momenta.tensors", "training.momenta.tensors has an empty name; write names such as \"dense*\"");
  }

 private:
  bool lion() const { return training_.optimizer.name == OptimizerKind::lion; }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const { keys_.fail(key, message); }

  const Config& config_;
  const TrainingConfig& training_;
  KeyOrigin keys_;
};

}  // namespace

template <>
std::vector<std::string> words_of<Communication>() {
  return {"fp32", "bf16", "int8", "levels8", "levels8-l0", "levels4", "vote", "auto"};
}
std::string to_string(Communication scheme) { return words_of<Communication>().at(static_cast<std::size_t>(scheme)); }

template <>
std::vector<std::string> words_of<MomentaRule>() {
  return {"shared", "local", "every", "spaced"};
}

SumSettings in_another_way(const SumSettings& sums, Communication scheme) {
  SumSettings other = sums;
  other.communication = scheme;
  if (!sends_signs(scheme) && sends_signs(sums.communication)) other.momenta.rule = MomentaRule::shared;
  if (sends_signs(scheme) && !sums.adds_directions()) other.momenta.rule = MomentaRule::local;
  other.error_feedback = sums.error_feedback && leaves_errors(other);
  other.full_levels = sums.full_levels && sends_levels(other);
  return other;
}

Keys<TrainingConfig> communication_keys() {
  Keys<TrainingConfig> keys;
  add_key(
      keys, "communication", MRMF_FIELD(sums.communication), one_of(words_of<Communication>()),
      "how the values that ranks add travel: in float32, bfloat16 or blocks of integers; for lion also as levels in 8 "
      "or 4 bits, or as votes of a bit; \"auto\" measures which pays");
  add_key(keys, "error_feedback", MRMF_FIELD(sums.error_feedback), {},
          "bf16, int8: what a sum's codes leave out is added to the next one's values");
  add_key(
      keys, "full_levels", MRMF_FIELD(sums.full_levels), {},
      "levels8, levels8-l0, levels4: each rank's levels go to 127 or 7, for the same bytes; else those of all ranks "
      "add up to no more than 127 or 15, as in Lion Cub");
  add_key(
      keys, "momenta.rule", MRMF_FIELD(sums.momenta.rule), one_of(words_of<MomentaRule>()),
      "lion: one momentum for all ranks, or one of each rank's own gradients, which is then averaged never, `every` so "
      "many steps, or at steps that are `spaced` ever wider");
  add_key(keys, "momenta.every", MRMF_FIELD(sums.momenta.every), within(1, kMostSteps),
          "every: steps from one average of the momenta to the next");
  add_key(keys, "momenta.spacing", MRMF_FIELD(sums.momenta.spacing), within(1, kMostSteps),
          "spaced: k, where 2^(j/k) steps lie between the j-th average and the next");
  add_key(keys, "momenta.tensors", MRMF_FIELD(sums.momenta.tensors), {},
          "every, spaced: names of the parameters whose momenta are averaged, * standing for any characters, such as "
          "\"dense*\"; those of all unless set");
  return keys;
}

void complete_communication(Config& config, const KeyLocations& locations, const std::string& origin) {
  SumSettings& sums = config.training.sums;
  if (sends_signs(sums.communication) && !locations.contains("training.momenta.rule"))
    sums.momenta.rule = MomentaRule::local;
  const std::vector<Way> ways = ways_of(config);
  const Checks checks(config, locations, origin);
  for (const Way& way : ways) checks.of_way(way);
  checks.of_all(ways);
}

}  // namespace mrmf
