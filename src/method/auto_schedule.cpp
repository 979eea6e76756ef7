#include "src/method/auto_schedule_and_tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "io/coarsen/coarsen.hpp"
#include "kernels/errors.hpp"
#include "layers/stem.hpp"
#include "src/method/pipeline.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

// The rules below come from trials with the problems that docs/results/map.md calls fitted: the cheaper a coarse epoch,
// the more of them pay, and the fewer are needed at full resolution.
constexpr double kDearestCoarseEpoch = 0.6;  // share of one at twice the resolution; above it little is left to save
constexpr Index kStatisticsSamples = 512;    // samples for precise batch norm, on all ranks together, at least
constexpr double kCheapWithoutStem = 0.2;    // share of a coarse epoch, up to which full resolution itself ends better

// In epochs of the baseline, by the cost of a coarse epoch: 1.2 and 0.14 at an eighth, 0.8 and 0.4 at a half.
double coarse_share(double cost) { return 4.0 / 3 - 16.0 / 15 * cost; }
double fine_share(double cost) { return 0.05 + 0.7 * cost; }

// The same where the coarse model is transferred whole, whatever a coarse epoch costs. At full resolution its layers
// see less of a sample than they did, and a shorter last phase does not mend that (docs/results/map.md, heat-init).
constexpr double kCoarseShareOfWhole = 0.8, kLastShareOfWhole = 0.375;

// The same behind a stem: 1.17 and 0.19 at a quarter, 1 and 1/3 at a half.
double coarse_share_of_stem(double cost) { return 4.0 / 3 - 2.0 / 3 * cost; }
double last_share_of_stem(double cost) { return 0.05 + 0.55 * cost; }

constexpr Index kFactors[] = {2, 4};

// Along every axis as much as its positions allow: an odd one stays.
Extent averaged(const Shape& sample, Index factor) {
  Extent factors{1, 1, 1};
  for (std::size_t axis = factors.size() - static_cast<std::size_t>(sample.axes); axis < factors.size(); ++axis)
    factors[axis] = std::gcd(sample.spatial[axis], factor);
  return factors;
}

bool odd_axis_stays(const Shape& sample, const Extent& resolution) {
  const std::size_t first = resolution.size() - static_cast<std::size_t>(sample.axes);
  return std::any_of(resolution.begin() + static_cast<std::ptrdiff_t>(first), resolution.end(),
                     [](Index factor) { return factor == 1; });
}

// "cosine" and "linear" fall to zero in whatever epochs there are; the others do not fit a short last phase.
RateRule last_rule(RateRule rule) { return rule == RateRule::cosine ? RateRule::cosine : RateRule::linear; }

int epochs(double share, int of) { return std::max(1, static_cast<int>(std::lround(share * of))); }

// Labels with positions have those of the network's output at full resolution, and are averaged with the samples.
void require_positions(const Shape& coarse, const Shape& full, const Extent& resolution) {
  if (full.axes == 0) return;
  const Shape labels = coarse_shape(full, resolution);
  if (coarse.spatial != labels.spatial)
    throw ConfigError(fmt::format("the network's output there is {}, and labels for {} are averaged to {}",
                                  to_string(coarse), to_string(full), to_string(labels)));
}

/// How the coarse model is transferred, with the epochs of both phases in those of the baseline.
struct CoarseTransfer {
  TopRule top = TopRule::interpolated;
  double coarse = 1, last = 1;
  double last_cost = 1;  ///< cost of an epoch of the last phase, in epochs at full resolution
  std::string why{};     ///< what the last model is
};

// Whether the model has such a layer.
bool holds(const Config& config, LayerKind kind) {
  return std::ranges::any_of(config.model.layers, [&](const LayerSpec& layer) { return layer.kind == kind; });
}

// Why the model behind a stem would not begin as the coarse one ends, or with labels finer than its output; else
// nothing.
std::string no_stem(const Config& config, const Network& full) {
  if (full.output().axes > 0) return "labels have positions";
  if (config.data.train.layout == SampleLayout::reinterpret) return "averages are of other neighbours";
  if (config.data.normalise_samples.log1p) return "logarithms of averages are no averages of logarithms";
  try {
    convolution_behind_stem(config.model.layers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

CoarseTransfer coarse_transfer(const Config& config, const Shape& sample, const CoarseLevel& coarse) {
  const std::string whole =
      "the network has the same parameters at every resolution, so the coarse model is kept whole";
  if (holds(config, LayerKind::global_average_pool))  // ends lower so than behind a stem (map.md, heat-init)
    return {.coarse = kCoarseShareOfWhole, .last = kLastShareOfWhole, .why = whole};
  CoarseTransfer without{.coarse = coarse_share(coarse.cost), .last = fine_share(coarse.cost)};
  if (!holds(config, LayerKind::flatten)) {
    without.why = whole;
    return without;
  }
  if (coarse.cost <= kCheapWithoutStem || coarse.cost > kDearestCoarseEpoch) {
    without.why = "the last model is the full network with the coarse one's convolutions and interpolated top";
    return without;
  }
  const auto backend = make_reference_backend();
  const Network full(*backend, {sample, 1, config.model.layers, config.model.bottom});
  if (const std::string reason = no_stem(config, full); !reason.empty()) {
    without.why = "the top is interpolated, and there is no stem: " + reason;
    return without;
  }
  const StemWindow window{coarse.resolution, sample.channels};
  const Network last(*backend, {sample, 1, behind_stem(config.model.layers, window), {}});
  const double cost = last.flop() / full.flop();
  return {TopRule::stem, coarse_share_of_stem(coarse.cost), last_share_of_stem(coarse.cost), cost,
          fmt::format("the last model is the coarse one behind a new first layer, front, that reads full resolution: "
                      "another network than the baseline's, an epoch of which costs {:.3f}",
                      cost)};
}

AutoSchedule baseline(const Config& config, std::vector<std::string> reasons) {
  AutoSchedule chosen{.config = baseline_of(config),
                      .baseline_training_cost = static_cast<double>(config.training.epochs)};
  chosen.training_cost = chosen.baseline_training_cost;
  chosen.reasons = std::move(reasons);
  chosen.reasons.emplace_back("so the plan is the baseline");
  return chosen;
}

// Steps of all ranks that have as many samples, at any resolution.
int statistics_steps(const Config& config, const std::optional<RunSize>& size) {
  const int ranks = size ? size->ranks : std::max(config.run.ranks, 1);
  Index blocks = 1;
  for (const Extent& grid : config.run.grid) blocks = std::max(blocks, product(grid));
  const Index step = config.training.batch * std::max<Index>(1, ranks / blocks);
  return static_cast<int>((kStatisticsSamples + step - 1) / step);
}

// Why the baseline is no dearer than the schedule once all is counted that the records of both would; else nothing.
std::string dear_text(const AutoSchedule& chosen, const Config& config, const Shape& sample, const RunSize& size) {
  const auto cost_of = [&](const Config& run) { return run_cost(run, make_plan(run), sample, size); };
  const RunCost own = cost_of(chosen.config), baseline = cost_of(baseline_of(config));
  if (own.epochs < baseline.epochs) return {};
  return fmt::format(
      "a coarse model first would cost {:.2f} epochs at full resolution, {:.2f} of them for the recalibration of batch "
      "norms, and the baseline {:.2f}",
      own.epochs, own.statistics, baseline.epochs);
}

/// By what it costs alone.
AutoSchedule cheapest_schedule(const Config& config, const Shape& sample, const std::optional<RunSize>& size) {
  MRMF_CHECK(config.method.name == MethodName::automatic, "a schedule is chosen where the method is auto");
  AutoSchedule chosen{.config = config, .baseline_training_cost = static_cast<double>(config.training.epochs)};
  MethodConfig& method = chosen.config.method;
  const CoarseLevels levels = coarse_levels(config, sample);
  const CoarseLevel coarse = levels.usable.empty() ? CoarseLevel{} : levels.usable.back();
  const int given = config.training.epochs;
  const CoarseTransfer way = coarse_transfer(config, sample, coarse);
  const int fine = epochs(way.last, given), before = epochs(way.coarse, given);
  chosen.training_cost = fine * way.last_cost + before * coarse.cost;
  std::string reason = levels.usable.empty() ? levels.end : "";
  if (reason.empty() && chosen.training_cost >= chosen.baseline_training_cost)
    reason = fmt::format("training.epochs = {} is too few to be divided between two resolutions", given);
  if (!reason.empty()) return baseline(config, {reason});
  method.name = MethodName::mrmf;
  method.detail = {};
  method.axes = sample.axes;
  method.resolutions = {coarse.resolution, {1, 1, 1}};
  method.top = way.top;
  // The same network continues there, so its moments still hold. With new ones Adam's first steps undo in a short last
  // phase what was learned (docs/results/map.md, heat-1000).
  if (way.top == TopRule::stem && method.transfer == TransferEpoch::last) method.moments = MomentTransfer::carry;
  method.coarse.rule = RateRule::constant;
  method.coarse.epochs = before;
  method.finetune.rule = last_rule(config.training.optimizer.rule);
  method.finetune.epochs = fine;
  // A short last phase leaves running averages behind.
  TrainingConfig& training = chosen.config.training;
  if (training.precise_batch_norm == 0) training.precise_batch_norm = statistics_steps(config, size);
  if (size) reason = dear_text(chosen, config, sample, *size);
  if (!reason.empty()) return baseline(config, {reason});
  chosen.reasons = {fmt::format("an epoch at resolution {} costs {:.3f} of one at full resolution",
                                resolution_text(coarse.resolution, sample.axes), coarse.cost)};
  if (odd_axis_stays(sample, coarse.resolution))
    chosen.reasons.push_back("an axis with an odd number of positions stays as it is: averages of 2 do not fit it");
  chosen.reasons.push_back(way.why);
  return chosen;
}

bool saves(const AutoSchedule& chosen) { return chosen.config.method.name != MethodName::baseline; }

constexpr double kExplainsNothing = 0.95;  // share of the variance left: the fit sees nothing that detail could add to

constexpr const char* kNotLooked = "whether the labels depend on detail that averages of 2 lose was not looked at: ";

std::string detail_text(const DetailMeasurement& measured) {
  if (!measured.known()) return kNotLooked + measured.why_not;
  const char* found = measured.loses() ? "the labels depend on detail that averages of 2 lose"
                      : std::min(measured.without_finest, measured.with_finest) > kExplainsNothing
                          ? "whether the labels depend on detail that averages of 2 lose cannot be told"
                          : "no sign that the labels depend on detail that averages of 2 lose";
  return fmt::format(
      "{}: a linear fit on {} training samples leaves {:.2f} of their variance unexplained without the finest detail "
      "and {:.2f} with it",
      found, measured.samples, measured.without_finest, measured.with_finest);
}

}  // namespace

Config baseline_of(Config config) {
  config.method.name = MethodName::baseline;
  config.method.detail = {};
  return config;
}

CoarseLevels coarse_levels(const Config& config, const Shape& sample) {
  const auto backend = make_reference_backend();
  const auto network = [&](const Extent& resolution) {
    return Network(*backend, {network_input(config, sample, resolution), 1, config.model.layers, config.model.bottom});
  };
  const Network full = network({1, 1, 1});
  CoarseLevels levels;
  if (config.data.patch.any()) {
    levels.end =
        "boxes of data.patch have as many positions at any resolution: write a schedule by hand "
        "(method.name = \"mrmf\")";
    return levels;
  }
  double finer = 1;
  for (const Index factor : kFactors) {
    const Extent resolution = averaged(sample, factor);
    if (resolution == (levels.usable.empty() ? Extent{1, 1, 1} : levels.usable.front().resolution)) {
      levels.end = sample.axes == 0 ? "samples without positions have no coarse resolutions"
                                    : fmt::format(
                                          "averages of {} fit no axis of {}: crop or pad them to multiples, or write a "
                                          "schedule by hand with resolutions that fit",
                                          factor, to_string(sample));
      break;
    }
    const std::string text = resolution_text(resolution, sample.axes);
    try {
      const Network coarse = network(resolution);
      require_fusible(coarse, full, Fusion{.from = resolution, .axes = sample.axes, .top = TopRule::interpolated});
      require_positions(coarse.output(), full.output(), resolution);
      const double cost = coarse.flop() / full.flop();
      if (cost > kDearestCoarseEpoch * finer) {
        levels.end = fmt::format(
            "an epoch at resolution {} costs {:.3f} of one at full resolution, which leaves too "
            "little to save",
            text, cost);
        break;
      }
      levels.usable.insert(levels.usable.begin(), {resolution, cost});
      finer = cost;
    } catch (const ConfigError& error) {
      levels.end = fmt::format("resolution {} cannot be used: {}", text, error.what());
      break;
    }
  }
  return levels;
}

AutoSchedule choose_schedule(const Config& config, const Shape& sample, const std::optional<RunSize>& size) {
  AutoSchedule chosen = cheapest_schedule(config, sample, size);
  if (saves(chosen)) chosen.reasons.push_back(kNotLooked + std::string("only the shape of a sample is known"));
  return chosen;
}

AutoSchedule choose_schedule(const Config& config, const DatasetShape& train, const RunSize& size, Comm& comm) {
  AutoSchedule chosen = cheapest_schedule(config, train.sample, size);
  if (!saves(chosen)) return chosen;
  if (config.method.detail == DetailRule::ignore) {
    chosen.reasons.push_back(kNotLooked + std::string("method.detail = \"ignore\""));
    return chosen;
  }
  const DetailMeasurement measured = measure_detail(config, train, comm, chosen.config.method.resolutions.front());
  chosen.reasons.push_back(detail_text(measured));
  if (measured.loses()) chosen = baseline(config, {chosen.reasons.front(), chosen.reasons.back()});
  chosen.detail = measured;
  return chosen;
}

}  // namespace mrmf
