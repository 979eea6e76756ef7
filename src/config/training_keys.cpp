// What keys of [training] and [tournament] go with, and keys of tournaments that have readings of their own. Keys of
// the loss are in loss_metric_keys.cpp.
#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {

std::string to_string(OptimizerKind kind) { return words_of<OptimizerKind>().at(static_cast<std::size_t>(kind)); }

std::string to_string(RateRule rule) { return words_of<RateRule>().at(static_cast<std::size_t>(rule)); }

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

// Sums over ranks: how values travel, and whose Lion's momenta are.

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

std::string to_string(Communication scheme) { return words_of<Communication>().at(static_cast<std::size_t>(scheme)); }

SumSettings in_another_way(const SumSettings& sums, Communication scheme) {
  SumSettings other = sums;
  other.communication = scheme;
  if (!sends_signs(scheme) && sends_signs(sums.communication)) other.momenta.rule = MomentaRule::shared;
  if (sends_signs(scheme) && !sums.adds_directions()) other.momenta.rule = MomentaRule::local;
  other.error_feedback = sums.error_feedback && leaves_errors(other);
  other.full_levels = sums.full_levels && sends_levels(other);
  return other;
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

// Tournaments. Paths are within [tournament].

namespace {

constexpr const char* kSettings =
    "a list with an entry for each trainer, which is a list of texts such as \"training.batch=64\"";

void read_settings(TournamentConfig& tournament, const Value& value, const std::string& path) {
  tournament.settings.clear();
  if (value.kind != Value::Kind::list) refuse(value, path, kSettings);
  for (const Value& trainer : value.items) {
    if (trainer.kind != Value::Kind::list) refuse(trainer, path, kSettings);
    std::vector<std::string>& own = tournament.settings.emplace_back();
    for (const Value& setting : trainer.items) own.push_back(read_text(setting, path, {}));
  }
}

Key<TournamentConfig> deciding_metric_key() {
  const std::string expected = "loss, or a metric that training.metric takes";
  return {
      "metric", expected,
      "what models are scored by where trainers meet, and in the end: the loss, or a metric, which training.metric "
      "then is, too; what training.monitor watches unless set",
      [=](TournamentConfig& tournament, const Value& value, const std::string& path) {
        tournament.metric = read_text(value, path, {});
        if (tournament.metric != "loss" && !metric_from(tournament.metric)) refuse(value, path, expected);
      },
      [](const TournamentConfig& tournament) { return tournament.metric.empty() ? "" : quoted(tournament.metric); }};
}

std::string write_settings(const TournamentConfig& tournament) {
  std::string text;
  for (const std::vector<std::string>& trainer : tournament.settings) {
    std::string own;
    for (const std::string& setting : trainer) own += (own.empty() ? "" : ", ") + quoted(setting);
    text += (text.empty() ? "[" : ", [") + own + "]";
  }
  return text.empty() ? "" : "[" + text + "]";
}

// Keys that a trainer may have of its own: none that decides what the others see of it.
bool may_differ(const std::string& key) {
  const auto begins = [&](const std::string& with) { return key.starts_with(with); };
  for (const char* common : {"training.loss", "training.metric", "training.monitor", "training.classes",
                             "training.ignore", "training.terms", "training.parts", "training.turns"})
    if (begins(common)) return false;
  return begins("training.") || begins("method.") || begins("model.") || key == "run.grid" || key == "data.shards" ||
         begins("data.augment.");
}

}  // namespace

std::string to_string(Selection selection) { return words_of<Selection>().at(static_cast<std::size_t>(selection)); }

void add_deciding_metric_key(KeyList<TournamentConfig>& keys) { keys.add(deciding_metric_key()); }

void add_settings_key(KeyList<TournamentConfig>& keys) {
  keys.add(
      {"settings", kSettings,
       "what trainers have of their own, by trainer: keys of [training], [method] and [model], run.grid, data.shards "
       "and data.augment",
       read_settings, write_settings});
}

void complete_tournament(Config& config, const KeyLocations& locations, const std::string& origin) {
  const std::string& name = config.tournament.metric;
  if (name.empty()) return;
  TrainingConfig& training = config.training;
  const auto require = [&](bool good, const std::string& message) {
    KeyOrigin{locations, origin}.require(good, "tournament.metric",
                                         "tournament.metric = " + quoted(name) + " " + message);
  };
  const std::optional<Metric> metric = metric_from(name),
                              named = training.monitored ? training.monitored : training.metric;
  if (!metric)
    return require(training.monitor == Monitor::loss,
                   "and training.monitor watch different numbers; remove one of them");
  require(!named || *named == *metric,
          "is not the metric that [training] names, and a run measures one; remove one of them");
  require(fits(metric->kind, training.loss.task()),
          "is no metric of this task, which follows from training.loss; take " + metric_choices(training.loss.task()) +
              ", or \"loss\"");
  training.monitored.reset();
  training.metric = metric;
  training.monitor = Monitor::metric;
}

void check_tournament(const Config& config, const KeyLocations& locations, const std::string& origin) {
  const TournamentConfig& t = config.tournament;
  const auto require = [&](bool good, const std::string& key, const std::string& message) {
    KeyOrigin{locations, origin}.require(good, "tournament." + key, "tournament." + key + " " + message);
  };
  if (t.trainers == 1) return;
  const auto each = [&](std::size_t entries) { return entries == 0 || std::ssize(t.settings) == t.trainers; };
  require(t.share.empty() || std::ssize(t.share) == t.trainers, "share",
          fmt::format("has {} entries and there are {} trainers; give one for each", t.share.size(), t.trainers));
  require(each(t.settings.size()), "settings",
          fmt::format("has {} entries and there are {} trainers; give a list for each, which may be empty",
                      t.settings.size(), t.trainers));
  require(t.selection != Selection::truncation || t.best < t.trainers, "best",
          fmt::format("is {} of {} trainers, so that there is none left to feed; give fewer", t.best, t.trainers));
  for (const std::vector<std::string>& trainer : t.settings)
    for (const std::string& setting : trainer) {
      std::string key = setting.substr(0, setting.find('='));
      std::erase(key, ' ');
      require(may_differ(key), "settings",
              fmt::format("gives a trainer {} of its own, which all have in common; leave it out", quoted(setting)));
    }
  require(config.data.train.piece.all(), "trainers",
          "shares out the training rows, and so does data.part; remove one of them");
  require(config.method.teams == TeamMode::sequential, "trainers",
          "are teams, and method.teams = \"concurrent\" would cut them again; use \"sequential\"");
  require(config.training.global_batch_norm || t.share.empty() || t.selection == Selection::none, "share",
          "may make teams of other sizes, between whose ranks training.batch_norm = \"local\" leaves nothing to "
          "exchange; use \"global\"");
}

}  // namespace mrmf
