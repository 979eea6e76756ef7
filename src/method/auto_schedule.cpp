#include "src/method/auto_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "io/coarsen.hpp"
#include "kernels/check.hpp"
#include "layers/front.hpp"
#include "src/method/fusion.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

// The rules below come from trials with both applications (jobs/cosmoflow/README.md, jobs/neuron/README.md): the
// cheaper a coarse epoch, the more of them pay, and the fewer are needed at full resolution.
constexpr double kDearestCoarseEpoch = 0.6;  // of one at twice the resolution; above it little is left to save
constexpr int kStatisticsSamples = 512;      // of precise batch norm, at least
constexpr double kCheapWithoutFront = 0.2;   // of a coarse epoch, up to which full resolution itself ends better

// In epochs of the baseline, by the cost of a coarse epoch: 1.2 and 0.14 at an eighth, 0.8 and 0.4 at a half.
double coarse_share(double cost) { return 4.0 / 3 - 16.0 / 15 * cost; }
double fine_share(double cost) { return 0.05 + 0.7 * cost; }

// The same behind a front: 1.17 and 0.19 at a quarter, 1 and 1/3 at a half.
double coarse_share_of_front(double cost) { return 4.0 / 3 - 2.0 / 3 * cost; }
double last_share_of_front(double cost) { return 0.05 + 0.55 * cost; }

constexpr Index kFactors[] = {2, 4};

Extent averaged(const Shape& sample, Index factor) {
  Extent factors{1, 1, 1};
  for (std::size_t axis = factors.size() - static_cast<std::size_t>(sample.axes); axis < factors.size(); ++axis)
    factors[axis] = factor;
  return factors;
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

/// How the coarse model is handed over, with the epochs of both phases in those of the baseline.
struct Way {
  TopRule top = TopRule::interpolated;
  double coarse = 1, last = 1;
  double last_cost = 1;  ///< of an epoch of the last phase, in epochs at full resolution
};

// Such a network has the same parameters at every resolution. So the coarse model is handed over whole, and ends lower
// at full resolution than behind a front (docs/results/map.md, heat-init).
bool knows_no_resolution(const Config& config) {
  return std::ranges::any_of(config.model.layers,
                             [](const LayerSpec& layer) { return layer.kind == LayerKind::global_average_pool; });
}

// Whether the model behind a front would begin as the coarse one ends, with labels that are as coarse as its output.
bool front_possible(const Config& config, const Network& full) {
  if (full.output().axes > 0) return false;
  if (config.data.train.layout == SampleLayout::reinterpret) return false;  // averages are of other neighbours
  if (config.data.normalise_samples.log1p) return false;  // logarithms of averages are no averages of logarithms
  try {
    convolution_behind_front(config.model.layers);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

Way way_of(const Config& config, const Shape& sample, const CoarseLevel& coarse) {
  const Way without{.coarse = coarse_share(coarse.cost), .last = fine_share(coarse.cost)};
  if (coarse.cost <= kCheapWithoutFront || coarse.cost > kDearestCoarseEpoch || knows_no_resolution(config))
    return without;
  const auto backend = make_reference_backend();
  const Network full(*backend, {sample, 1, config.model.layers, config.model.bottom});
  if (!front_possible(config, full)) return without;
  const FrontWindow window{coarse.resolution, sample.channels};
  const Network last(*backend, {sample, 1, behind_front(config.model.layers, window), {}});
  return {TopRule::front, coarse_share_of_front(coarse.cost), last_share_of_front(coarse.cost),
          last.flop() / full.flop()};
}

AutoSchedule baseline(const Config& config, std::vector<std::string> reasons, const std::string& so) {
  AutoSchedule chosen{.config = baseline_of(config),
                      .baseline_training_cost = static_cast<double>(config.training.epochs)};
  chosen.training_cost = chosen.baseline_training_cost;
  chosen.reasons = std::move(reasons);
  chosen.reasons.push_back("so the plan is the baseline" + so);
  return chosen;
}

/// By arithmetic alone.
AutoSchedule cheapest_schedule(const Config& config, const Shape& sample) {
  MRMF_CHECK(config.method.name == MethodName::automatic, "a schedule is chosen where the method is auto");
  AutoSchedule chosen{.config = config, .baseline_training_cost = static_cast<double>(config.training.epochs)};
  MethodConfig& method = chosen.config.method;
  const CoarseLevels levels = coarse_levels(config, sample);
  const CoarseLevel coarse = levels.usable.empty() ? CoarseLevel{} : levels.usable.back();
  const int given = config.training.epochs;
  const Way way = way_of(config, sample, coarse);
  const int fine = epochs(way.last, given), before = epochs(way.coarse, given);
  chosen.training_cost = fine * way.last_cost + before * coarse.cost;
  std::string reason = levels.usable.empty() ? levels.end : "";
  if (reason.empty() && chosen.training_cost >= chosen.baseline_training_cost)
    reason = fmt::format("{} epoch{} are too few to be divided between two resolutions", given, given == 1 ? "" : "s");
  if (!reason.empty()) return baseline(config, {reason}, ": no coarse model would save anything");
  method.name = MethodName::mrmf;
  method.detail = {};
  method.axes = sample.axes;
  method.resolutions = {coarse.resolution, {1, 1, 1}};
  method.top = way.top;
  // The same network goes on there, so its moments still hold. With new ones Adam's first steps undo in a short last
  // phase what was learned (docs/results/map.md, heat-1000).
  if (way.top == TopRule::front && method.handover == Handover::last) method.moments = Moments::carry;
  method.coarse.rule = RateRule::constant;
  method.coarse.epochs = before;
  method.finetune.rule = last_rule(config.training.optimizer.rule);
  method.finetune.epochs = fine;
  // A short last phase leaves running averages behind.
  TrainingConfig& training = chosen.config.training;
  if (training.precise_batch_norm == 0)
    training.precise_batch_norm = (kStatisticsSamples + training.batch - 1) / training.batch;
  chosen.reasons = {fmt::format("an epoch at resolution {} costs {:.3f} of one at full resolution",
                                resolution_text(coarse.resolution, sample.axes), coarse.cost)};
  if (way.top == TopRule::front)
    chosen.reasons.push_back(fmt::format(
        "the last model is the coarse one behind a new first layer, front, that reads full resolution: another network "
        "than the baseline's, an epoch of which costs {:.3f}",
        way.last_cost));
  return chosen;
}

bool saves(const AutoSchedule& chosen) { return chosen.config.method.name != MethodName::baseline; }

constexpr const char* kNotLooked = "whether the labels depend on detail that averages of 2 lose was not looked at: ";

std::string detail_text(const DetailLook& look) {
  if (!look.known()) return kNotLooked + look.why_not;
  return fmt::format(
      "{} on detail that averages of 2 lose: a linear fit on {} training samples leaves {:.2f} of their variance "
      "unexplained without the finest detail and {:.2f} with it",
      look.loses() ? "the labels depend" : "no sign that the labels depend", look.samples, look.without_finest,
      look.with_finest);
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
    return Network(*backend, {coarse_shape(sample, resolution), 1, config.model.layers, config.model.bottom});
  };
  const Network full = network({1, 1, 1});
  CoarseLevels levels;
  double finer = 1;
  for (const Index factor : kFactors) {
    const Extent resolution = averaged(sample, factor);
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

AutoSchedule choose_schedule(const Config& config, const Shape& sample) {
  AutoSchedule chosen = cheapest_schedule(config, sample);
  if (saves(chosen)) chosen.reasons.push_back(kNotLooked + std::string("only the shape of a sample is known"));
  return chosen;
}

AutoSchedule choose_schedule(const Config& config, const DatasetShape& train, Comm& comm) {
  AutoSchedule chosen = cheapest_schedule(config, train.sample);
  if (!saves(chosen)) return chosen;
  if (config.method.detail == DetailRule::ignore) {
    chosen.reasons.push_back(kNotLooked + std::string("method.detail = \"ignore\""));
    return chosen;
  }
  const DetailLook look = look_at_detail(config, train, comm);
  chosen.reasons.push_back(detail_text(look));
  if (look.loses()) chosen = baseline(config, {chosen.reasons.front(), chosen.reasons.back()}, "");
  chosen.detail = look;
  return chosen;
}

}  // namespace mrmf
