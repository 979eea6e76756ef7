#include "src/concurrent_stage.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "src/pipeline.hpp"

namespace mrmf {
namespace {

// What a rank knows when its team has trained.
struct Team {
  std::optional<StepHistory> history;  // none: stopped by a signal
  double elapsed = 0;
  std::string log;  // of a team that has a report of its own
};

// A group of a model's parameters, with the state and the moments that a fusion takes along.
std::vector<Span> spans_of(Learner& learner, bool top, bool moments) {
  const Group group = top ? learner.model.top() : learner.model.bottom();
  std::vector<Span> spans{group.params, group.state};
  const Span params = learner.model.params();
  const auto first = static_cast<std::size_t>(group.params.data() - params.data());
  if (moments)
    for (const Span all : learner.optimizer.moments()) spans.push_back(all.subspan(first, group.params.size()));
  return spans;
}

// One broadcast of them all.
void share(Backend& backend, const std::vector<Span>& spans, Comm& world, int root) {
  std::size_t count = 0;
  for (const Span span : spans) count += span.size();
  std::vector<float> values(count);
  std::size_t at = 0;
  for (const Span span : spans) {
    if (world.rank() == root) backend.read(span, std::span(values).subspan(at, span.size()));
    at += span.size();
  }
  world.broadcast(values, root);
  at = 0;
  for (const Span span : spans) {
    if (world.rank() != root) backend.write(std::span(values).subspan(at, span.size()), span);
    at += span.size();
  }
}

void share_steps(Optimizer& optimizer, Comm& world, int root) {
  auto steps = static_cast<std::int64_t>(optimizer.steps());
  world.broadcast(std::span(&steps, 1), root);
  optimizer.set_steps(static_cast<std::uint64_t>(steps));
}

StepHistory share_history(const std::optional<StepHistory>& mine, Comm& world, int root) {
  std::string text = world.rank() == root ? to_json(*mine) : "";
  world.broadcast(text, root);
  return step_history_from_json(text, "the other team's history");
}

class AtOnce {
 public:
  AtOnce(const ConcurrentStage& what, const Workplace& at)
      : what_(what),
        at_(at),
        in_coarse_(at.team.rank() < what.teams.coarse),
        team_(at.team.split(in_coarse_ ? 0 : 1)),
        meeting_(at.team.duplicate()) {
    meeting_.limit(0);  // the other team may need hours more; should it die, its end is the job's
  }

  TrainedAtOnce run(Learner& coarse, double elapsed) {
    std::optional<Learner> dense;
    Team mine = train(coarse, dense, elapsed);
    elapsed = meet(mine);
    const Timer after;
    const StepHistory first = share_history(mine.history, at_.team, 0);
    const StepHistory second = share_history(mine.history, at_.team, what_.teams.coarse);
    tell(first, second, mine.log);
    if (!dense) dense.emplace(new_dense(at_));
    const bool moments = what_.stage.fuse.moments == Moments::carry;
    share(at_.backend, spans_of(coarse, false, moments), at_.team, 0);
    share(at_.backend, spans_of(*dense, true, moments), at_.team, what_.teams.coarse);
    share_steps(coarse.optimizer, at_.team, 0);
    share_steps(dense->optimizer, at_.team, what_.teams.coarse);
    return {std::move(*dense), {first.record, second.record}, elapsed + after.seconds()};
  }

 private:
  Learner new_dense(const Workplace& at) const {
    return make_learner(what_.plan, what_.config, at, what_.stage.fuse.to, what_.stage.dense_seed);
  }

  Team train(Learner& coarse, std::optional<Learner>& dense, double elapsed) {
    RunReport own;
    const TrainStep& step = in_coarse_ ? what_.stage.coarse : *what_.stage.dense;
    if (!in_coarse_ && team_.root()) own = at_.report.of_team(at_.saving && at_.saving->checkpoints.found());
    const Workplace place{at_.backend, team_, at_.data, in_coarse_ ? at_.report : own, at_.saving, at_.lanes};
    if (!at_.data.loaded()) at_.data.load(team_);  // the first reading is before the run's time
    Trainer trainer(place, what_.config.training, elapsed);
    at_.data.load(team_);
    place.report.log(fmt::format("data of the {} team: {}", to_string(step.role), at_.data.way()));
    if (!at_.backend.immediate())
      trainer.rehearse(network_settings(what_.config, what_.plan, at_.data.shape().sample, step.resolution), step);
    if (!in_coarse_) dense.emplace(new_dense(place));
    Team team;
    try {
      team.history = trainer.train(in_coarse_ ? coarse : *dense, step);
    } catch (const Stopped&) {
      // The other team stops at a step of its own, or has no more: all end together, when they meet.
    } catch (const Error&) {
      // What all ranks of a team see, its root says, and ends the job.
      if (!team_.root()) std::this_thread::sleep_for(std::chrono::seconds(5));
      throw;
    }
    team.elapsed = trainer.total_seconds();
    team.log = own.log_text();
    return team;
  }

  // Who is early waits here. Returns the run's seconds of the later team.
  double meet(Team& mine) {
    const Timer waiting;
    if (meeting_.any(!mine.history)) throw Stopped{};
    mine.history->record.waited = waiting.seconds();
    return at_.team.max(mine.elapsed);
  }

  void tell(const StepHistory& coarse, const StepHistory& dense, std::string& log) {
    at_.team.broadcast(log, what_.teams.coarse);
    at_.report.take_over({coarse, dense}, log);
    const StepHistory& early = coarse.record.waited > dense.record.waited ? coarse : dense;
    at_.report.log(fmt::format("stage {}: the {} team was ready first and waited {:.2f} s for the other",
                               what_.stage.fuse.stage, early.record.role, early.record.waited));
    if (!at_.saving) return;
    at_.saving->checkpoints.add(what_.stage.coarse, coarse);
    at_.saving->checkpoints.add(*what_.stage.dense, dense);
  }

  const ConcurrentStage& what_;
  const Workplace& at_;
  bool in_coarse_;
  Comm team_, meeting_;
};

}  // namespace

TrainedAtOnce train_at_once(const ConcurrentStage& what, Learner& coarse, const Workplace& at, double elapsed) {
  return AtOnce(what, at).run(coarse, elapsed);
}

}  // namespace mrmf
