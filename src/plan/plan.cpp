#include "src/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/coarsen/coarsen.hpp"
#include "kernels/random.hpp"
#include "layers/stem.hpp"

namespace mrmf {
namespace {

// Every model of a run starts from its own parameters.
std::uint64_t model_seed(std::uint64_t seed, std::size_t model) { return mix(seed, 0x6d6f64656cULL, model); }

void apply(const RoleSettings& role, const TrainingConfig& training, Phase& phase) {
  if (role.batch) phase.batch = *role.batch;
  if (role.learning_rate) phase.optimizer.learning_rate = *role.learning_rate;
  if (role.rule) phase.optimizer.rule = *role.rule;
  if (role.epochs) phase.stop.epochs = *role.epochs;
  if (role.threshold) phase.stop.threshold = *role.threshold;
  if (role.patience) phase.stop.patience = *role.patience;
  if (role.metric) phase.stop.metric_target = {training.metric.value(), *role.metric};
  if (role.communication) phase.sums = in_another_way(training.sums, *role.communication);
}

// Where "auto" has chosen the resolutions, there is one grid for all of them.
const Extent& grid_of(const Config& config, const Extent& resolution) {
  const std::vector<Extent>& all = config.method.resolutions;
  const auto number = static_cast<std::size_t>(std::ranges::find(all, resolution) - all.begin());
  return config.run.grid.at(config.run.grid.size() == 1 ? 0 : number);
}

Phase make_phase(const Config& config, int stage, Role role, const Extent& resolution) {
  Phase phase;
  phase.stage = stage;
  phase.role = role;
  phase.resolution = resolution;
  phase.grid = grid_of(config, resolution);
  phase.axes = std::max(1, config.method.axes);
  phase.batch = config.training.batch;
  phase.optimizer = config.training.optimizer;
  phase.sums = config.training.sums;
  phase.stop.epochs = config.training.epochs;
  phase.stop.early_stopping = config.training.early_stopping;
  phase.stop.monitor = config.training.monitor;
  const MethodConfig& method = config.method;
  const std::size_t i = static_cast<std::size_t>(stage) - 1;
  switch (role) {
    case Role::coarse: apply(method.coarse, config.training, phase); break;
    case Role::dense: apply(method.dense, config.training, phase); break;
    case Role::baseline:
    case Role::finetune: apply(method.finetune, config.training, phase); break;
  }
  if (i < method.stages.size() && role == Role::coarse) apply(method.stages[i].coarse, config.training, phase);
  if (i < method.stages.size() && role == Role::dense) apply(method.stages[i].dense, config.training, phase);
  return phase;
}

// Carried moments must exist, and those of the top must have one age.
void require_moments(const MethodConfig& method, const Stage& stage) {
  if (method.moments == MomentTransfer::reset) return;
  const std::string refused = "method.moments = \"carry\" does not go with ";
  if (!stage.coarse_trained)
    throw ConfigError(refused + "method.bottom = \"fresh\", where the bottom has no moments; use \"reset\"");
  if (stage.fuse.matching || stage.fuse.top == TopRule::fresh)
    throw ConfigError(refused +
                      "fresh layers at the top, which have no moments; use \"reset\", or mrmf with method.top = "
                      "\"dense\" or \"interpolated\"");
}

std::vector<Phase*> phases_of(Plan& plan) {
  std::vector<Phase*> phases;
  for (Stage& stage : plan.stages) {
    if (stage.coarse_trained) phases.push_back(&stage.coarse);
    if (stage.dense) phases.push_back(&*stage.dense);
  }
  phases.push_back(&plan.last);
  return phases;
}

// One learning-rate curve over the whole run: each phase gets a part in proportion to its epochs.
void share_curve(Plan& plan) {
  const std::vector<Phase*> phases = phases_of(plan);
  double total = 0, done = 0;
  for (const Phase* phase : phases) total += phase->stop.epochs;
  for (Phase* phase : phases) {
    phase->curve = {done / total, (done + phase->stop.epochs) / total};
    done += phase->stop.epochs;
  }
}

nlohmann::json to_json(const Phase& phase) {
  nlohmann::json json = {{"step", "train"},
                         {"stage", phase.stage},
                         {"role", to_string(phase.role)},
                         {"resolution", factors(phase.resolution, phase.axes)},
                         {"batch", phase.batch},
                         {"optimizer", to_string(phase.optimizer.name)},
                         {"learning_rate", phase.optimizer.learning_rate},
                         {"rule", to_string(phase.optimizer.rule)},
                         {"curve", {phase.curve.begin, phase.curve.end}},
                         {"epochs", phase.stop.epochs},
                         {"seed", phase.seed}};
  if (product(phase.grid) > 1) json["grid"] = factors(phase.grid, phase.axes);
  if (phase.sums.communication != Communication::fp32) json["communication"] = to_string(phase.sums.communication);
  if (phase.stop.threshold) json["threshold"] = *phase.stop.threshold, json["patience"] = phase.stop.patience;
  if (phase.stop.target) json["target"] = *phase.stop.target;
  if (const auto& target = phase.stop.metric_target) json["target_" + to_string(target->metric)] = target->least;
  if (const EarlyStopping& early = phase.stop.early_stopping; early.patience > 0)
    json["early_stopping"] = {{"monitor", phase.stop.monitor == Monitor::loss ? "loss" : "metric"},
                              {"patience", early.patience},
                              {"least_change", early.least_change}};
  if (phase.stop.probe_epochs > 0) json["probe_epochs"] = phase.stop.probe_epochs;
  return json;
}

// What a fusion transfers from the coarse model.
std::string bottom_text(const Stage& stage) {
  if (!stage.coarse_trained) return "fresh";
  return stage.coarse.transfers_best ? "from coarse at its best epoch" : "from coarse";
}

std::string moments_text(const Fusion& fuse) {
  if (fuse.moments == MomentTransfer::reset) return "reset";
  return fuse.top == TopRule::stem ? "carried over but for the new layers" : "carried over";
}

const char* top_text(const Fusion& fuse, bool dense_trained) {
  if (fuse.matching) return "top layers that fit from coarse, the others fresh";
  switch (fuse.top) {
    case TopRule::fresh: return "top fresh";
    case TopRule::interpolated: return "top interpolated from coarse";
    case TopRule::stem: return "top from coarse, all behind a new first layer, front";
    case TopRule::dense: return dense_trained ? "top from dense" : "top fresh";
  }
  return "";
}

std::string top_name(const Fusion& fuse) {
  if (fuse.matching) return "matching";
  return to_string(fuse.top);
}

std::string stop_text(const StopSettings& stop) {
  std::string text;
  if (stop.target) text += fmt::format("validation loss <= {}, or ", *stop.target);
  if (const auto& target = stop.metric_target)
    text += fmt::format("validation {} {} {}, or ", to_string(target->metric),
                        falls(target->metric.kind) ? "<=" : ">=", target->least);
  if (const EarlyStopping& early = stop.early_stopping; early.patience > 0)
    text +=
        fmt::format("no better validation {} for {} epoch{}, or ", stop.monitor == Monitor::loss ? "loss" : "metric",
                    early.patience, early.patience == 1 ? "" : "s");
  if (stop.probe_epochs > 0) text += fmt::format("it stops paying (every {} epochs), or ", stop.probe_epochs);
  if (stop.threshold) text += fmt::format("loss reduction < {} for {} epochs, or ", *stop.threshold, stop.patience);
  return text + fmt::format("{} epoch{}", stop.epochs, stop.epochs == 1 ? "" : "s");
}

std::string train_text(const Phase& phase) {
  const std::string grid =
      product(phase.grid) > 1 ? fmt::format("  grid {:<8}", resolution_text(phase.grid, phase.axes)) : "";
  const Communication scheme = phase.sums.communication;
  return fmt::format("train  {:<8}  resolution {:<8}{}  batch {:<5} {} {} {:<9} until {}{}", to_string(phase.role),
                     resolution_text(phase.resolution, phase.axes), grid, phase.batch, to_string(phase.optimizer.name),
                     phase.optimizer.learning_rate, to_string(phase.optimizer.rule), stop_text(phase.stop),
                     scheme == Communication::fp32 ? "" : "; communication " + to_string(scheme));
}

std::string teams_text(const Stage& stage) {
  if (!stage.at_once) return "";
  const std::string shares = stage.team_shares.empty()
                                 ? "in shares to be measured"
                                 : fmt::format("{} : {} (dense : coarse)", stage.team_shares[0], stage.team_shares[1]);
  return ", at once with coarse, ranks " + shares;
}

}  // namespace

std::string to_string(Role role) {
  switch (role) {
    case Role::baseline: return "baseline";
    case Role::coarse: return "coarse";
    case Role::dense: return "dense";
    case Role::finetune: return "finetune";
  }
  return "";
}

std::vector<Index> factors(const Extent& resolution, int axes) {
  std::ptrdiff_t first = 0;
  while (first < std::ssize(resolution) - std::max(axes, 1) && resolution[static_cast<std::size_t>(first)] == 1)
    ++first;
  return {resolution.begin() + first, resolution.end()};
}

std::string resolution_text(const Extent& resolution, int axes) {
  return fmt::format("[{}]", fmt::join(factors(resolution, axes), ","));
}

std::string phase_text(const Phase& phase) {
  return fmt::format("stage {} ({}, resolution {})", phase.stage, to_string(phase.role),
                     resolution_text(phase.resolution, phase.axes));
}

Plan make_plan(const Config& config) {
  const MethodConfig& method = config.method;
  if (method.name == MethodName::automatic)
    throw ConfigError(
        "method.name = \"auto\" has no plan before the samples' shape is known; see what it chooses with mrmf plan");
  const std::vector<Extent>& resolutions = method.resolutions;
  Plan plan;
  plan.method = method.name;
  std::size_t models = 0;
  for (std::size_t s = 0; s + 1 < resolutions.size(); ++s) {
    Stage stage;
    const int number = static_cast<int>(s) + 1;
    stage.coarse = make_phase(config, number, Role::coarse, resolutions[s]);
    stage.coarse.seed = model_seed(config.training.seed, models++);
    stage.dense_seed = model_seed(config.training.seed, models++);
    stage.coarse_trained = method.bottom == BottomRule::coarse;
    if (method.switch_by == SwitchRule::slope) stage.coarse.stop.probe_epochs = method.probe_epochs;
    stage.coarse.transfers_best = method.transfer == TransferEpoch::best && stage.coarse_trained;
    stage.fuse = {number, resolutions[s], resolutions[s + 1], stage.coarse.axes, method.top, false, method.moments};
    if (method.name == MethodName::mrt) stage.fuse.top = TopRule::fresh;
    if (method.name == MethodName::progressive) stage.fuse.matching = true;
    if (method.name == MethodName::mrmf && method.top == TopRule::dense) {
      stage.dense = make_phase(config, number, Role::dense, resolutions[s + 1]);
      stage.dense->seed = stage.dense_seed;
      stage.at_once = method.teams == TeamMode::concurrent;
      stage.team_shares = method.team_shares;
    }
    require_moments(method, stage);
    plan.stages.push_back(stage);
  }
  const Role role = plan.stages.empty() ? Role::baseline : Role::finetune;
  plan.last = make_phase(config, static_cast<int>(resolutions.size()), role, resolutions.back());
  plan.last.seed = model_seed(config.training.seed, models);
  plan.last.stop.target = method.target;
  if (method.metric_target) plan.last.stop.metric_target = method.metric_target;
  if (method.curve == RateScope::run) share_curve(plan);
  int number = 0;
  for (Phase* phase : phases_of(plan)) phase->number = ++number;
  return plan;
}

std::vector<Phase> Plan::phases() const {
  std::vector<Phase> phases;
  for (const Stage& stage : stages) {
    if (stage.coarse_trained) phases.push_back(stage.coarse);
    if (stage.dense) phases.push_back(*stage.dense);
  }
  phases.push_back(last);
  return phases;
}

std::vector<Extent> Plan::resolutions() const {
  std::vector<Extent> result;
  for (const Stage& stage : stages) result.push_back(stage.coarse.resolution);
  result.push_back(last.resolution);
  return result;
}

const Extent& Plan::grid(const Extent& resolution) const {
  for (const Stage& stage : stages)
    if (stage.coarse.resolution == resolution) return stage.coarse.grid;
  return last.grid;
}

bool Plan::shares_samples() const {
  return product(last.grid) > 1 ||
         std::ranges::any_of(stages, [](const Stage& stage) { return product(stage.coarse.grid) > 1; });
}

int Plan::largest_batch(const Extent& resolution) const {
  int largest = 0;
  for (const Phase& phase : phases())
    if (phase.resolution == resolution) largest = std::max(largest, phase.batch);
  return largest;
}

Shape network_input(const Config& config, const Shape& sample, const Extent& resolution) {
  return patch_of(config.data.patch, coarse_shape(sample, resolution));
}

NetworkSettings network_for(const Config& config, const Extent& resolution, const Shape& input, Index rows) {
  NetworkSettings settings{input, rows, config.model.layers, config.model.bottom, config.training.parts.network()};
  const MethodConfig& method = config.method;
  if (method.top != TopRule::stem || resolution != method.resolutions.back()) return settings;
  StemWindow window{.channels = input.channels};
  for (std::size_t axis = 0; axis < window.ratio.size(); ++axis)
    window.ratio[axis] = method.resolutions.front()[axis] / resolution[axis];
  // What begins anew has moments of an age of its own: the stem, and the layers that it widens.
  settings.bottom = new_layers(settings.layers);
  settings.layers = behind_stem(std::move(settings.layers), window);
  return settings;
}

NetworkSettings network_settings(const Config& config, const Plan& plan, const Shape& sample,
                                 const Extent& resolution) {
  const Index rows = config.training.rows_at_once(plan.largest_batch(resolution));
  return network_for(config, resolution, network_input(config, sample, resolution), std::max<Index>(1, rows));
}

namespace {

double boxes(const Config& config, const Shape& sample, const Extent& resolution) {
  return static_cast<double>(patches_of(config.data.patch, coarse_shape(sample, resolution)));
}

}  // namespace

std::vector<double> phase_flop(const Config& config, const Plan& plan, const Shape& sample) {
  const auto backend = make_reference_backend();
  std::vector<double> flop;
  for (const Phase& phase : plan.phases())
    flop.push_back(Network(*backend, network_settings(config, plan, sample, phase.resolution)).flop() *
                   boxes(config, sample, phase.resolution));
  return flop;
}

double full_flop(const Config& config, const Plan& plan, const Shape& sample) {
  const auto backend = make_reference_backend();
  const Shape input = network_input(config, sample, plan.last.resolution);
  return Network(*backend, {input, 1, config.model.layers, config.model.bottom, config.training.parts.network()})
             .flop() *
         boxes(config, sample, plan.last.resolution);
}

double training_cost(const Config& config, const Plan& plan, const Shape& sample) {
  const std::vector<Phase> phases = plan.phases();
  const std::vector<double> flop = phase_flop(config, plan, sample);
  double cost = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) cost += phases[i].stop.epochs * flop[i];
  return cost / full_flop(config, plan, sample);
}

bool may_end_early(const Plan& plan) {
  const std::vector<Phase> phases = plan.phases();
  return std::ranges::any_of(phases, [](const Phase& p) { return p.stop.early(); });
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("plan: {}, {} fusion{}\n", to_string(plan.method), plan.stages.size(),
                                 plan.stages.size() == 1 ? "" : "s");
  int number = 0;
  const auto add = [&](int stage, const std::string& line) {
    text += fmt::format("{:>3}. stage {}  {}\n", ++number, stage, line);
  };
  for (const Stage& stage : plan.stages) {
    if (stage.coarse_trained) add(stage.coarse.stage, train_text(stage.coarse));
    if (stage.dense) add(stage.dense->stage, train_text(*stage.dense) + teams_text(stage));
    add(stage.fuse.stage,
        fmt::format("fuse   {} -> {}: bottom {}, {}, optimizer moments {}",
                    resolution_text(stage.fuse.from, stage.fuse.axes), resolution_text(stage.fuse.to, stage.fuse.axes),
                    bottom_text(stage), top_text(stage.fuse, stage.dense.has_value()), moments_text(stage.fuse)));
  }
  add(plan.last.stage, train_text(plan.last));
  return text;
}

std::string to_json(const Plan& plan) {
  nlohmann::json steps = nlohmann::json::array();
  for (const Stage& stage : plan.stages) {
    if (stage.coarse_trained) steps.push_back(to_json(stage.coarse));
    if (stage.dense) steps.push_back(to_json(*stage.dense));
    if (stage.at_once) {
      steps.back()["at_once"] = true;
      if (!stage.team_shares.empty()) steps.back()["team_shares"] = stage.team_shares;
    }
    steps.push_back({{"step", "fuse"},
                     {"stage", stage.fuse.stage},
                     {"from", factors(stage.fuse.from, stage.fuse.axes)},
                     {"to", factors(stage.fuse.to, stage.fuse.axes)},
                     {"bottom", stage.coarse_trained ? "coarse" : "fresh"},
                     {"top", top_name(stage.fuse)},
                     {"moments", stage.fuse.moments == MomentTransfer::reset ? "reset" : "carry"}});
    if (stage.coarse.transfers_best) steps.back()["transfer"] = "best";
  }
  steps.push_back(to_json(plan.last));
  return nlohmann::json{{"method", to_string(plan.method)}, {"steps", steps}}.dump(2) + "\n";
}

}  // namespace mrmf
