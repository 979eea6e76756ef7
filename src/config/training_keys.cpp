// Keys of training: the optimizer, batches and epochs, when a phase ends. Paths are within [training]; defaults:
// TrainingConfig in config.hpp. Keys of the task are in task_keys.cpp.
#include <utility>

#include "kernels/errors.hpp"
#include "src/config/key_origin.hpp"
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

}  // namespace mrmf
