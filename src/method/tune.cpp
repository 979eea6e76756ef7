#include "src/method/auto_schedule_and_tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "io/coarsen/coarsen.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "src/data/data.hpp"
#include "src/method/pipeline.hpp"
#include "src/run/signals.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"
#include "src/training/training_loop.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr int kSurvivors = 3;     // one of so many trials climbs to the next rung
constexpr int kFewestTrials = 2;  // that reach the last one: a comparison at full resolution decides
// So many trials bear it that kFewestForAgreement reach the last one: that is no more than a quarter of them.
constexpr int kManyTrials = 4 * kFewestForAgreement;

int survivors(int trials, int fewest) {
  return std::min(trials, std::max(fewest, (trials + kSurvivors - 1) / kSurvivors));
}

Config at_rung(const Config& config, const Trial& trial, const Rung& rung, int axes) {
  Config own = tuned(config, trial, 1);
  own.method = {};
  own.method.resolutions = {rung.resolution};
  own.method.axes = axes;
  own.training.epochs = rung.epochs;
  own.training.early_stopping = {};  // trials of a rung are compared after as many epochs
  own.run.ranks = 0;
  return own;
}

// A finished trial in the folder, by what it trained: another configuration's is not found.
class Finished {
 public:
  Finished(const std::string& folder, const Config& config) {
    const std::string text = to_toml(config);
    path_ = fmt::format("{}/trial-{:016x}.json", folder, XXH3_64bits(text.data(), text.size()));
  }
  // NaN: it diverged.
  std::optional<double> loss() const {
    std::error_code unknown;
    if (!std::filesystem::exists(path_, unknown)) return {};
    const std::string text = read_file(path_);
    require_shallow_json(text, path_);
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const auto loss = json.is_object() ? json.find("validation_loss") : json.end();
    if (!json.is_object() || loss == json.end() || !(loss->is_number() || loss->is_null()))
      throw DataError(path_ + ": not what mrmf writes there; remove it to have the trial trained again");
    return loss->is_null() ? std::numeric_limits<double>::quiet_NaN() : loss->get<double>();
  }
  void keep(const Trial& trial, const Rung& rung, double loss) const {
    const nlohmann::json json{{"learning_rate", trial.learning_rate},
                              {"batch", trial.batch},
                              {"rule", to_string(trial.rule)},
                              {"resolution", rung.resolution},
                              {"epochs", rung.epochs},
                              {"validation_loss", std::isfinite(loss) ? nlohmann::json(loss) : nlohmann::json()}};
    write_file(path_, json.dump() + "\n", Replace::file);
  }

 private:
  std::string path_;
};

// Where trials are trained: each rank by itself, side by side.
struct TrialRunner {
  Comm& world;
  Comm self;
  std::unique_ptr<Backend> backend;  // with this rank's threads
  const SignalThread thread_of_signals;
  StopSignals signals;
  SavePolicy stops;
  int ranks_on_host;
  Data::Known known;  // the same for all trials

  TrialRunner(const Config& config, Comm& ranks)
      : world(ranks),
        self(ranks.split(ranks.rank())),
        backend(make_backend(config.run, ranks)),
        signals(ranks.root()),
        stops(config.run, signals),
        ranks_on_host(ranks_of_same(host_name(), ranks).size()),
        known{inspect_dataset(config.data.train, ranks)} {
    known.validation = inspect_dataset(config.data.validation, {config.data.train, known.train}, ranks);
  }

  int axes() const { return known.train.sample.axes; }

  // NaN: it diverged. Stopped: a signal came.
  double train(Config config) {
    const Plan plan = make_plan(config);
    for (const Phase& phase : plan.phases())
      require_rows(config, plan, phase,
                   {known.train.sample, known.train.samples, 1, config.run.device != Device::cuda});
    config.data.memory = config.data.memory.value_or(kShareOfMemory * host_memory() / 1e9) / ranks_on_host;
    Data data(config, self, Data::Reading::now, &known);
    RunLog silent;
    RunContext ctx{*backend, self, data, silent};
    ctx.stops = &stops;
    if (data.validation().labelled == 0)
      throw DataError(no_label_text(config.data.validation, config.training, "validation") +
                      ": trials cannot be compared; give it labels, or correct that");
    try {
      return run_pipeline(plan, config, ctx).phases.back().last.validation_loss;
    } catch (const DivergedError&) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
};

using Tell = std::function<void(const std::string&)>;

/// Says how far a rung is, now and then: the root's view, whose trials take about as long as the others'.
class RungProgress {
 public:
  RungProgress(const Tell& tell, bool root, std::size_t trials) : tell_(tell), root_(root), trials_(trials) {}
  void done(std::size_t count) {
    const double now = timer_.seconds();
    if (!root_ || count >= trials_ || now - told_ < kEvery) return;
    tell_(fmt::format("  {} of {} trials done, {:.0f} s", count, trials_, now));
    told_ = now;
  }

 private:
  static constexpr double kEvery = 10;  // seconds
  const Tell& tell_;
  bool root_;
  std::size_t trials_;
  Timer timer_;
  double told_ = 0;
};

// Every trial's loss, in order: rank r trains trials r, r + ranks, ...
std::vector<double> train_side_by_side(const TuneSettings& settings, const Rung& rung, const std::vector<Trial>& trials,
                                       TrialRunner& runner, const Tell& tell) {
  RungProgress progress(tell, runner.world.root(), trials.size());
  std::vector<double> losses(trials.size());
  const auto ranks = static_cast<std::size_t>(runner.world.size()), own = static_cast<std::size_t>(runner.world.rank());
  int signal = 0;
  for (std::size_t t = own; t < trials.size() && signal == 0; t += ranks) {
    const Config config = at_rung(settings.config, trials[t], rung, runner.axes());
    const Finished finished(settings.folder, config);
    const std::optional<double> earlier = finished.loss();
    try {
      losses[t] = earlier ? *earlier : runner.train(config);
      if (!earlier) finished.keep(trials[t], rung, losses[t]);
      progress.done(std::min(trials.size(), t + ranks));
    } catch (const Stopped& stopped) {
      signal = stopped.signal;
    }
  }
  signal = static_cast<int>(runner.world.max(signal));
  if (signal != 0) throw Stopped{signal};
  for (std::size_t t = 0; t < trials.size(); ++t) losses[t] = runner.world.all_gather(losses[t])[t % ranks];
  return losses;
}

// Lower losses first; a diverged trial is worse than any other.
bool better(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto less = std::ranges::count_if(values, [&](double v) { return better(v, values[i]); });
    const auto no_more = std::ranges::count_if(values, [&](double v) { return !better(values[i], v); });
    ranks[i] = 0.5 * static_cast<double>(less + no_more - 1);  // ties share the mean of their places
  }
  return ranks;
}

}  // namespace

std::vector<Rung> make_rungs(const Config& config, const Shape& sample, int trials) {
  std::vector<Rung> rungs;
  for (const CoarseLevel& level : coarse_levels(config, sample).usable)
    rungs.push_back({level.resolution, config.training.epochs, 0, level.cost * config.training.epochs});
  if (rungs.empty()) {
    const int some = std::max(1, config.training.epochs / 3);
    rungs.push_back({{1, 1, 1}, some, 0, static_cast<double>(some)});
  }
  rungs.push_back({{1, 1, 1}, config.training.epochs, 0, static_cast<double>(config.training.epochs)});
  const int fewest = trials >= kManyTrials ? kFewestForAgreement : kFewestTrials, all = trials;
  double cost = 0;
  for (Rung& rung : rungs) {
    rung.trials = std::exchange(trials, survivors(trials, fewest));
    cost += rung.trials * rung.cost;
  }
  // Few trials are as cheap without coarse ones, and say more.
  if (cost < all * rungs.back().cost) return rungs;
  rungs.erase(rungs.begin(), rungs.end() - 1);
  rungs.back().trials = all;
  return rungs;
}

std::vector<Trial> tune(const TuneSettings& settings, const std::vector<Rung>& rungs, Comm& world,
                        const std::function<void(const std::string&)>& tell) {
  std::vector<Trial> climbing = settings.trials, left;
  world.limit(0);  // ranks wait for each other's trials, however long they take
  TrialRunner runner(settings.config, world);
  for (std::size_t r = 0; r < rungs.size(); ++r) {
    const Timer timer;
    const auto count = static_cast<std::ptrdiff_t>(rungs[r].trials);
    left.insert(left.begin(), climbing.begin() + count, climbing.end());
    climbing.resize(static_cast<std::size_t>(count));
    const std::vector<double> losses = train_side_by_side(settings, rungs[r], climbing, runner, tell);
    for (std::size_t t = 0; t < climbing.size(); ++t) climbing[t].losses.push_back(losses[t]);
    std::ranges::stable_sort(climbing,
                             [](const Trial& a, const Trial& b) { return better(a.losses.back(), b.losses.back()); });
    if (world.root())
      tell(fmt::format("{} of {} rung{}: {} trial{} of {} epoch{} at resolution {} in {:.1f} s; best {:.5g}", r + 1,
                       rungs.size(), rungs.size() == 1 ? "" : "s", count, count == 1 ? "" : "s", rungs[r].epochs,
                       rungs[r].epochs == 1 ? "" : "s", resolution_text(rungs[r].resolution, runner.axes()),
                       timer.seconds(), climbing.front().losses.back()));
  }
  climbing.insert(climbing.end(), left.begin(), left.end());
  return climbing;
}

double rank_agreement(const std::vector<Trial>& trials, std::size_t rung, std::size_t other) {
  std::vector<double> a, b;
  for (const Trial& trial : trials) {
    if (trial.losses.size() <= std::max(rung, other)) continue;
    a.push_back(trial.losses[rung]);
    b.push_back(trial.losses[other]);
  }
  if (std::ssize(a) < kFewestForAgreement) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

Config tuned(const Config& config, const Trial& trial, int ranks) {
  Config own = config;
  own.training.optimizer.learning_rate = trial.learning_rate;
  own.training.optimizer.rule = trial.rule;
  own.training.batch = trial.batch / ranks;
  return own;
}

}  // namespace mrmf
