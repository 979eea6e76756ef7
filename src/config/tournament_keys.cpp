// Keys of tournaments. Paths are within [tournament]; defaults: TournamentConfig in config.hpp.
#include <algorithm>
#include <optional>

#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

constexpr double kMostTrainers = 1 << 16;
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

template <>
std::vector<std::string> words_of<Selection>() {
  return {"pairwise", "truncation", "none"};
}
std::string to_string(Selection selection) { return words_of<Selection>().at(static_cast<std::size_t>(selection)); }

template <>
std::vector<std::string> words_of<Mutated>() {
  return {"learning_rate", "weight_decay", "dropout"};
}

Keys<TournamentConfig> tournament_keys() {
  Keys<TournamentConfig> keys;
  add_key(
      keys, "trainers", MRMF_FIELD(trainers), within(1, kMostTrainers),
      "teams of ranks, each of which trains a model of its own on its part of the training rows; 1 for no tournament");
  add_key(keys, "share", MRMF_FIELD(share), at_least(1),
          "shares of the ranks, one for each trainer, such as [2, 1, 1]; equal unless set");
  add_key(keys, "rounds", MRMF_FIELD(rounds), within(0, kMostSteps),
          "times that the trainers meet; 0 for as often as their epochs have room for");
  add_key(
      keys, "steps", MRMF_FIELD(steps), within(0, kMostSteps),
      "steps that each trains from one meeting to the next, in the plan's last phase; 0 for an epoch of the trainer "
      "with the most steps");
  add_key(
      keys, "selection", MRMF_FIELD(selection), one_of(words_of<Selection>()),
      "pairwise: two trainers meet and each keeps the better model; truncation: the models of the `best` few go to all "
      "others; none: trainers do not meet, and the best one is the run's in the end");
  add_key(keys, "best", MRMF_FIELD(best), within(1, kMostTrainers), "truncation: so many trainers feed the others");
  add_key(
      keys, "exchange", MRMF_FIELD(exchange), {},
      "names of the layers that travel, \"conv*\" for all that begin with conv; the others stay with their trainer; "
      "the whole model unless set");
  keys.push_back(deciding_metric_key());
  add_key(
      keys, "held_out", MRMF_FIELD(held_out), above_to(0, 0.9),
      "share of a trainer's training rows that it does not train on: models are scored on them where trainers meet");
  add_key(
      keys, "rows", MRMF_FIELD(rows), one_of({"part", "all"}),
      "training rows of a trainer: one of as many equal parts as there are trainers, or all, but for what is held out");
  add_key(keys, "mutate", MRMF_FIELD(mutate), one_of(words_of<Mutated>()),
          "what a trainer changes that takes another's model: each of these by 0.8 or 1.2, at random");
  add_key(keys, "on_error", MRMF_FIELD(on_error), one_of({"end", "drop"}),
          "where an error ends a trainer: the run ends too, or the others play on without it");
  keys.push_back({"settings", kSettings,
                  "what trainers have of their own, by trainer: keys of [training], [method] and [model], run.grid, "
                  "data.shards and data.augment",
                  read_settings, write_settings});
  return keys;
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
