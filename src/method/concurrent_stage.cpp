// Two teams that train a stage's models at once: their rendezvous, and the exchange of what each has trained.
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "mpi/rendezvous.hpp"
#include "src/method/teams.hpp"
#include "src/plan/resolve_labels.hpp"
#include "src/training/model_state.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
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
