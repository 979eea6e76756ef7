// Two teams of ranks that train a stage's coarse and dense model at once (method.teams = "concurrent", paper section
// 3.4): their sizes, their rendezvous, and what they exchange. Declared in pipeline.hpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/method/pipeline.hpp"
#include "src/plan/plan.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "src/training/training_loop.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

using Json = nlohmann::json;

std::string path_in(const RunConfig& run) { return run.folder + "/checkpoints/teams.json"; }

std::string origin_of(const Config& config, int ranks) {
  const std::string text = fmt::format("{} ranks\n{}", ranks, to_toml(config));
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// An epoch's seconds on all ranks. Leaves out I/O, because averaging the data is not an epoch's work.
double epoch_seconds(const Config& config, const Plan& plan, Phase phase, const RunContext& ctx) {
  RunLog silent;
  const RunContext apart = ctx.without_saving(silent);
  phase.stop = {};
  phase.stop.epochs = 1;
  TrainingLoop loop(apart, config.training);
  loop.autotune(config, plan, phase);
  ModelState throwaway = make_model_state(plan, config, apart, phase.resolution, phase.seed);
  const PhaseRecord record = loop.train(throwaway, phase).record;
  return record.time_shares.compute.mean + record.time_shares.communication.mean;
}

// Measures what is still unknown, and calls `keep` after each model, so that a stop loses one epoch at most.
template <typename Keep>
TeamSizes measure(const Config& config, const Plan& plan, const Stage& stage, const RunContext& ctx,
                  MeasuredTeams& measured, const Keep& keep) try {
  const Timer timer;
  ctx.data.load(ctx.team);
  const auto seconds_of = [&](const Phase& phase) {
    const auto [entry, unknown] = measured.seconds.try_emplace({phase.stage, phase.role}, 0);
    if (!unknown) return entry->second;
    ctx.log.line(
        fmt::format("stage {}: measuring an epoch of the {} model on all ranks", phase.stage, to_string(phase.role)));
    entry->second = epoch_seconds(config, plan, phase, ctx);
    keep();
    return entry->second;
  };
  const double dense = seconds_of(*stage.dense), coarse = seconds_of(stage.coarse);
  const int dense_epochs = stage.dense->stop.epochs, coarse_epochs = stage.coarse.stop.epochs;
  const TeamSizes teams = proportional_teams(dense * dense_epochs, coarse * coarse_epochs, ctx.team.size());
  ctx.log.line(
      fmt::format("stage {}: measured in {:.2f} s: an epoch on all ranks takes {:.3f} s dense (at most {} epochs) and "
                  "{:.3f} s coarse (at most {})",
                  stage.fuse.stage, timer.seconds(), dense, dense_epochs, coarse, coarse_epochs));
  measured.sizes[stage.fuse.stage] = teams;
  measured.seconds.clear();
  keep();
  return teams;
} catch (const Stopped& stopped) {
  ctx.log.line(
      fmt::format("stopped on {} while the teams of stage {} were measured; run the same command again to continue",
                  signal_name(stopped.signal), stage.fuse.stage));
  throw;
}

// JSON: {"origin": "...", "1": {"dense": 3, "coarse": 2}, "seconds": {"2": {"dense": 0.7}}}
MeasuredTeams parse(const std::string& text, const std::string& path, const std::string& origin) try {
  require_shallow_json(text, path);
  MeasuredTeams measured;
  const Json all = Json::parse(text);
  for (const auto& [key, value] : all.items()) {
    if (key == "origin" || key == "seconds") continue;
    measured.sizes[std::stoi(key)] = {whole_number<int>(value.at("dense")), whole_number<int>(value.at("coarse"))};
  }
  if (all.value("origin", "") != origin || !all.contains("seconds")) return measured;
  for (const auto& [stage, roles] : all.at("seconds").items())
    for (const Role role : {Role::coarse, Role::dense})
      if (roles.contains(to_string(role)))
        measured.seconds[{std::stoi(stage), role}] = roles.at(to_string(role)).get<double>();
  return measured;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(path + ": not what mrmf writes there (" + error.what() + "); begin anew with --overwrite");
}

}  // namespace

std::optional<TeamSizes> measured_sizes(const MeasuredTeams& measured, int stage, const RunConfig& run, int ranks) {
  const auto found = measured.sizes.find(stage);
  if (found == measured.sizes.end()) return {};
  const TeamSizes& teams = found->second;
  if (teams.dense < 1 || teams.coarse < 1 || teams.ranks() != ranks)
    throw ConfigError(
        fmt::format("{}: the teams of stage {} were measured on {} ranks, and this run has {}; continue on {} "
                    "ranks, or give --overwrite to begin anew",
                    path_in(run), stage, teams.ranks(), ranks, teams.ranks()));
  return teams;
}

MeasuredTeams read_measured_teams(const Config& config, Comm& world) {
  const std::string path = path_in(config.run);
  std::string text;
  collective_try(world, [&] {
    std::error_code unknown;
    if (world.root() && std::filesystem::exists(path, unknown)) text = read_file(path);
  });
  world.broadcast(text, 0);
  return text.empty() ? MeasuredTeams{} : parse(text, path, origin_of(config, world.size()));
}

void write_measured_teams(const MeasuredTeams& measured, const Config& config, Comm& world) {
  Json all{{"origin", origin_of(config, world.size())}};
  for (const auto& [stage, teams] : measured.sizes)
    all[std::to_string(stage)] = {{"dense", teams.dense}, {"coarse", teams.coarse}};
  for (const auto& [model, seconds] : measured.seconds)
    all["seconds"][std::to_string(model.first)][to_string(model.second)] = seconds;
  collective_try(world, [&] {
    if (world.root()) write_file(path_in(config.run), all.dump() + "\n", Replace::file);
  });
}

void forget_teams(const RunConfig& run, const Comm& world) {
  std::error_code ignored;
  if (world.root()) std::filesystem::remove(path_in(run), ignored);
}

void forget_teams_of_others(const Config& config, const Comm& world) {
  std::error_code unknown;
  if (!world.root() || !std::filesystem::exists(path_in(config.run), unknown)) return;
  const Json all = Json::parse(read_file(path_in(config.run)), nullptr, false);
  if (!all.is_object() || all.value("origin", "") != origin_of(config, world.size())) forget_teams(config.run, world);
}

std::optional<TeamSizes> given_teams(const MethodConfig& method, int ranks) {
  if (ranks < 2)
    throw ConfigError(
        "method.teams = \"concurrent\" needs a rank for each of two teams, and this run has 1; start it with mpirun -n "
        "2 or more, or set method.teams = \"sequential\"");
  if (method.team_shares.empty()) return {};
  const int dense = method.team_shares[0], coarse = method.team_shares[1], divisor = std::gcd(dense, coarse);
  const int parts = (dense + coarse) / divisor;
  if (ranks % parts != 0)
    throw ConfigError(fmt::format(
        "method.team_shares = [{}, {}] does not fit {} rank{}; use {} or a multiple, other shares, or leave "
        "method.team_shares out to have them measured",
        dense, coarse, ranks, ranks == 1 ? "" : "s", parts));
  return TeamSizes{dense / divisor * (ranks / parts), coarse / divisor * (ranks / parts)};
}

TeamSizes proportional_teams(double dense_seconds, double coarse_seconds, int ranks) {
  const double share = dense_seconds / (dense_seconds + coarse_seconds);
  const int dense = std::clamp(static_cast<int>(std::lround(share * ranks)), 1, ranks - 1);
  return {dense, ranks - dense};
}

void require_trainable(const Config& config, const Plan& plan, const Stage& stage, const TeamSizes& teams,
                       const DatasetShape& shape) {
  const auto require = [&](const Phase& phase, int ranks, const std::string& who) {
    try {
      require_rows(config, plan, phase, {shape.sample, shape.samples, ranks, config.run.device != Device::cuda});
    } catch (const ConfigError& error) {
      throw ConfigError(who + error.what());
    }
  };
  const auto require_team = [&](const Phase& phase, int ranks) {
    const std::string role = to_string(phase.role);
    require(phase, ranks,
            fmt::format("the {} team of stage {}, {} of {} ranks: ", role, phase.stage, ranks, teams.ranks()));
  };
  require_team(stage.coarse, teams.coarse);
  require_team(*stage.dense, teams.dense);
}

TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const RunContext& ctx) {
  std::optional<TeamSizes> teams = given_teams(config.method, ctx.team.size());
  const bool kept = ctx.saving != nullptr;  // a run without checkpoints has nowhere to keep them
  MeasuredTeams measured;
  if (!teams && kept) {
    measured = read_measured_teams(config, ctx.team);
    teams = measured_sizes(measured, stage.fuse.stage, config.run, ctx.team.size());
  }
  if (!teams)
    teams = measure(config, plan, stage, ctx, measured, [&] {
      if (kept) write_measured_teams(measured, config, ctx.team);
    });
  require_trainable(config, plan, stage, *teams, ctx.data.shape());
  ctx.log.line(fmt::format("stage {}: a coarse team of {} rank{} and a dense team of {} train at once",
                           stage.fuse.stage, teams->coarse, teams->coarse == 1 ? "" : "s", teams->dense));
  return *teams;
}

// Two teams that train a stage's models at once: their rendezvous, and the exchange of what each has trained.

namespace {

std::vector<Span> spans_of(ModelState& model_state, const std::vector<LayerGroup>& groups, bool moments) {
  std::vector<Span> spans;
  for (const LayerGroup& group : groups) {
    spans.insert(spans.end(), {group.params, group.state});
    const auto first = static_cast<std::size_t>(group.params.data() - model_state.model.params().data());
    if (moments)
      for (const Span all : model_state.optimizer.moments()) spans.push_back(all.subspan(first, group.params.size()));
  }
  return spans;
}

// Sends rank `root`'s parameters and state of groups of layers, the moments if wanted, and the optimizer's step counts
// to every rank's model. Collective over `world`.
void broadcast(Backend& backend, ModelState& model_state, const std::vector<LayerGroup>& groups, bool moments,
               Comm& world, int root) {
  const std::vector<Span> spans = spans_of(model_state, groups, moments);
  std::size_t count = 0;
  for (const Span span : spans) count += span.size();
  std::vector<float> values(count);
  std::size_t first = 0;
  for (const Span span : spans) {
    if (world.rank() == root) backend.read(span, std::span(values).subspan(first, span.size()));
    first += span.size();
  }
  world.broadcast(values, root);
  first = 0;
  for (const Span span : spans) {
    if (world.rank() != root) backend.write(std::span(values).subspan(first, span.size()), span);
    first += span.size();
  }
  const MomentAges& mine = model_state.optimizer.ages();
  std::array<std::int64_t, 2> ages{static_cast<std::int64_t>(mine.bottom), static_cast<std::int64_t>(mine.top)};
  world.broadcast(ages, root);
  model_state.optimizer.set_ages({static_cast<std::uint64_t>(ages[0]), static_cast<std::uint64_t>(ages[1])});
}

// A rank's result when its team has trained.
struct Trained {
  bool stopped = false;  // by a signal, after saving
  PhaseHistory history;
  double elapsed = 0;
};

PhaseHistory broadcast(const PhaseHistory& mine, Comm& world, int root) {
  std::string text = world.rank() == root ? to_json(mine) : "";
  world.broadcast(text, root);
  return phase_history_from_json(text, "the other team's history");
}

class TwoTeams {
 public:
  TwoTeams(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage, const TeamSizes& teams,
           ModelState& coarse)
      : ctx_(ctx),
        plan_(plan),
        config_(config),
        stage_(stage),
        coarse_(coarse),
        coarse_ranks_(teams.coarse),
        in_coarse_(ctx.team.rank() < teams.coarse),
        team_(ctx.team.split(in_coarse_ ? 0 : 1)),
        rendezvous_(ctx.team) {
    if (!in_coarse_ && team_.root()) own_ = ctx.log.of_team(ctx.saving && ctx.saving->checkpoints.found());
  }

  TrainedAtOnce run(double elapsed) {
    Trained mine = train(elapsed);
    std::array<float, 1> stops{mine.stopped ? 1.0F : 0.0F};
    const double waited = rendezvous_.sum_when_all_arrive(stops, team_);
    if (stops[0] > 0) throw Stopped{};  // a signal has stopped one of the teams, which has saved
    elapsed = ctx_.team.max(mine.elapsed);
    const Timer after;
    if (!dense_) dense_.emplace(new_dense(ctx_));
    mine.history.record.waited = waited;
    tell(mine.history);
    const bool moments = stage_.fuse.moments == MomentTransfer::carry;
    broadcast(ctx_.backend, coarse_, coarse_.model.bottom(), moments, ctx_.team, 0);
    broadcast(ctx_.backend, *dense_, dense_->model.top(), moments, ctx_.team, coarse_ranks_);
    return {std::move(*dense_), records_, elapsed + after.seconds()};
  }

 private:
  ModelState new_dense(const RunContext& ctx) const {
    return make_model_state(plan_, config_, ctx, stage_.fuse.to, stage_.dense_seed);
  }

  Trained train(double elapsed) {
    try {
      return train_mine(elapsed);
    } catch (const Error&) {
      // An error that all ranks of a team see is reported by its root, which ends the job.
      if (!team_.root()) std::this_thread::sleep_for(std::chrono::seconds(5));
      throw;
    }
  }

  Trained train_mine(double elapsed) {
    const Phase& mine = in_coarse_ ? stage_.coarse : *stage_.dense;
    const RunContext ctx = ctx_.for_team(team_, in_coarse_ ? ctx_.log : own_);
    const bool first = !ctx_.data.loaded();
    if (first) ctx_.data.load(team_);  // the run's time begins after the first reading
    if (first && in_coarse_)           // either team has all samples
      for (const std::string& line : class_warnings(config_, ctx_.data.class_counts(team_)))
        ctx.log.line("warning: " + line);
    TrainingLoop loop(ctx, config_.training, elapsed);
    ctx_.data.load(team_);
    ctx.log.line(fmt::format("data of the {} team: {}", to_string(mine.role), ctx_.data.way()));
    loop.autotune(config_, plan_, mine);
    if (!in_coarse_) dense_.emplace(new_dense(ctx));
    Trained trained;
    try {
      trained.history = loop.train(in_coarse_ ? coarse_ : *dense_, mine);
    } catch (const Stopped&) {
      // The other team stops at its own step, or has none left. All end together at the rendezvous.
      trained.stopped = true;
    }
    trained.elapsed = loop.total_seconds();
    return trained;
  }

  // Merges the records and lines of both teams into those of the run.
  void tell(const PhaseHistory& mine) {
    const PhaseHistory coarse = broadcast(mine, ctx_.team, 0);
    const PhaseHistory dense = broadcast(mine, ctx_.team, coarse_ranks_);
    records_ = {coarse.record, dense.record};
    std::string log = own_.log_text();
    ctx_.team.broadcast(log, coarse_ranks_);
    ctx_.log.take_over({coarse, dense}, log);
    const PhaseRecord& early = coarse.record.waited > dense.record.waited ? coarse.record : dense.record;
    ctx_.log.line(fmt::format("stage {}: the {} team was ready first and waited {:.2f} s for the other", early.stage,
                              to_string(early.role), early.waited));
    if (!ctx_.saving) return;
    ctx_.saving->checkpoints.add(stage_.coarse, coarse);
    ctx_.saving->checkpoints.add(*stage_.dense, dense);
  }

  const RunContext& ctx_;
  const Plan& plan_;
  const Config& config_;
  const Stage& stage_;
  ModelState& coarse_;
  std::optional<ModelState> dense_;
  int coarse_ranks_;  // the next rank is the dense team's root
  bool in_coarse_;
  Comm team_;
  Rendezvous rendezvous_;
  RunLog own_;  // the dense team's root's; silent on other ranks
  std::array<PhaseRecord, 2> records_;
};

}  // namespace

TrainedAtOnce train_at_once(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage,
                            const TeamSizes& teams, ModelState& coarse, double elapsed) {
  return TwoTeams(ctx, plan, config, stage, teams, coarse).run(elapsed);
}

}  // namespace mrmf
