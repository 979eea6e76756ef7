// Two teams that train a stage's models at once: where they meet, and how all ranks get what each has trained.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/notice.hpp"
#include "src/method/teams.hpp"
#include "src/system/timer.hpp"
#include "src/training/model_state.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {
namespace {

enum class LearnerPart { bottom, top, all };

Group group_of(Model& model, LearnerPart part) {
  if (part == LearnerPart::bottom) return model.bottom();
  if (part == LearnerPart::top) return model.top();
  return {model.params(), model.state(), {}};
}

std::vector<Span> spans_of(Learner& learner, LearnerPart part, bool moments) {
  const Group group = group_of(learner.model, part);
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

// Parameters and state of that part, its moments if they are wanted, and the optimizer's count of steps: of rank
// `root`, to every rank's learner. Collective over `world`.
void hand_round(Backend& backend, Learner& learner, LearnerPart part, bool moments, Comm& world, int root) {
  share(backend, spans_of(learner, part, moments), world, root);
  const MomentAges& mine = learner.optimizer.ages();
  std::array<std::int64_t, 2> ages{static_cast<std::int64_t>(mine.bottom), static_cast<std::int64_t>(mine.top)};
  world.broadcast(ages, root);
  learner.optimizer.set_ages({static_cast<std::uint64_t>(ages[0]), static_cast<std::uint64_t>(ages[1])});
}

/// How a team's training ended; of the two teams', the later one here holds for all. Unfinished: the other team is to
/// join it. Stopped: by a signal, and saved.
enum class TeamEnd { finished, unfinished, stopped };

/// Where two teams that train at once meet when they have trained.
class TeamMeeting {
 public:
  /// Of the teams that `world` is cut into, the second of which begins at rank `second`; `team` is this rank's.
  /// Collective over the world.
  TeamMeeting(const Comm& world, const Comm& team, int second);

  /// Is the other team waiting, its model trained? The same on every rank of `team`, over which it is collective.
  bool other_waits(Comm& team);

  struct Met {
    TeamEnd end;
    double waited = 0, longest = 0;  ///< seconds, of this rank and of all
  };
  /// Who is early waits here for the other team, and without a limit: it may need hours more. A rank that hangs is
  /// found by its own team, or by the other when that comes to a team that waits, and ends the job. Collective over the
  /// world, once.
  Met meet(TeamEnd mine, Comm& team);

 private:
  Comm world_;
  std::optional<Notice> notice_;  // of the teams' first ranks
};

// Waits for a second at most, and gently: the other team may share the cores.
bool done_soon(PendingSum& sum) {
  for (const Timer waiting; waiting.seconds() < 1;) {
    if (sum.test()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

TeamMeeting::TeamMeeting(const Comm& world, const Comm& team, int second) : world_(world.duplicate()) {
  world_.sum_in_any_order(false);  // such a sum could not go on beside other calls
  if (team.root()) notice_.emplace(world_, world_.rank() == 0 ? second : 0);
}

bool TeamMeeting::other_waits(Comm& team) { return team.any(notice_ && notice_->arrived()); }

TeamMeeting::Met TeamMeeting::meet(TeamEnd mine, Comm& team) {
  const Timer waiting;
  if (notice_ && mine == TeamEnd::finished) notice_->send();
  std::array<float, 2> ends{mine == TeamEnd::unfinished ? 1.0F : 0.0F, mine == TeamEnd::stopped ? 1.0F : 0.0F};
  if (other_waits(team)) {
    world_.sum(ends);  // they need only answer
  } else {
    // Meanwhile a team looks after its own: its calls have a limit.
    for (PendingSum sum = world_.start_sum(ends); team.any(!done_soon(sum));) {
    }
  }
  const double waited = waiting.seconds();
  if (notice_) notice_->finish();
  const TeamEnd end = ends[1] > 0 ? TeamEnd::stopped : ends[0] > 0 ? TeamEnd::unfinished : TeamEnd::finished;
  return {end, waited, world_.max(waited)};
}

// What a rank knows when its team has trained.
struct Team {
  TeamEnd end = TeamEnd::finished;
  std::optional<TrainState> state;  // none: stopped, or what all ranks went on with is on disk
  double elapsed = 0;
};

StepHistory share_history(const std::optional<TrainState>& mine, Comm& world, int root) {
  std::string text = world.rank() == root ? to_json(mine->history) : "";
  world.broadcast(text, root);
  return step_history_from_json(text, "the other team's history");
}

TrainState share_state(const std::optional<TrainState>& mine, const TrainStep& step, Comm& world, int root) {
  std::string text = world.rank() == root ? to_json(*mine) : "";
  world.broadcast(text, root);
  return train_state_from_json(text, step, "the other team's state");
}

class AtOnce {
 public:
  AtOnce(const ConcurrentStage& what, Learner& coarse, const Workplace& at)
      : what_(what),
        at_(at),
        coarse_(coarse),
        in_coarse_(at.team.rank() < what.teams.coarse),
        team_(at.team.split(in_coarse_ ? 0 : 1)),
        meeting_(at.team, team_, what.teams.coarse) {
    if (!in_coarse_ && team_.root()) own_ = at.report.of_team(at.saving && at.saving->checkpoints.found());
  }

  TrainedAtOnce run(double elapsed) {
    Team mine = train(elapsed);
    const TeamMeeting::Met met = meeting_.meet(mine.end, team_);
    if (met.end == TeamEnd::stopped) throw Stopped{};
    elapsed = at_.team.max(mine.elapsed);
    Timer after;
    if (!dense_) dense_.emplace(new_dense(at_));
    if (met.end == TeamEnd::unfinished) {
      elapsed = join(mine, met, elapsed);
      after = {};
    }
    mine.state->history.record.waited = met.waited;
    tell(mine);
    const bool moments = what_.stage.fuse.moments == Moments::carry;
    hand_round(at_.backend, coarse_, LearnerPart::bottom, moments, at_.team, 0);
    hand_round(at_.backend, *dense_, LearnerPart::top, moments, at_.team, what_.teams.coarse);
    return {std::move(*dense_), records_, elapsed + after.seconds()};
  }

 private:
  const TrainStep& step(bool coarse) const { return coarse ? what_.stage.coarse : *what_.stage.dense; }
  RunReport& report(bool coarse) { return coarse ? at_.report : own_; }
  Learner& learner(bool coarse) { return coarse ? coarse_ : *dense_; }
  int root(bool coarse) const { return coarse ? 0 : what_.teams.coarse; }

  Learner new_dense(const Workplace& at) const {
    return make_learner(what_.plan, what_.config, at, what_.stage.fuse.to, what_.stage.dense_seed);
  }

  // Has an earlier start of the run let the other team join the one that trains this step?
  bool joined_before(bool coarse) const {
    if (!at_.saving) return false;
    for (const StepHistory& earlier : at_.saving->checkpoints.history())
      if (earlier.record.stage == step(coarse).stage && earlier.record.role == to_string(step(coarse).role))
        return earlier.record.joined > 0;
    return false;
  }

  Team train(double elapsed) {
    if (joined_before(in_coarse_)) return {TeamEnd::unfinished, {}, elapsed};
    try {
      return train_mine(elapsed);
    } catch (const Error&) {
      // What all ranks of a team see, its root says, and ends the job.
      if (!team_.root()) std::this_thread::sleep_for(std::chrono::seconds(5));
      throw;
    }
  }

  Team train_mine(double elapsed) {
    const TrainStep& mine = step(in_coarse_);
    const Workplace place = at_.of(team_, report(in_coarse_));
    if (!at_.data.loaded()) at_.data.load(team_);  // the first reading is before the run's time
    Trainer trainer(place, what_.config.training, elapsed);
    at_.data.load(team_);
    place.report.log(fmt::format("data of the {} team: {}", to_string(mine.role), at_.data.way()));
    trainer.rehearse(what_.config, what_.plan, mine);
    if (!in_coarse_) dense_.emplace(new_dense(place));
    Team team;
    try {
      team.state = trainer.saved(learner(in_coarse_), mine);
      if (!team.state) team.state.emplace(mine);
      trainer.train(learner(in_coarse_), mine, *team.state,
                    [&] { return what_.config.method.join && meeting_.other_waits(team_); });
      if (!team.state->finished()) team.end = TeamEnd::unfinished;
    } catch (const Stopped&) {
      // The other team stops at a step of its own, or has no more: all end together, when they meet.
      team.end = TeamEnd::stopped;
    }
    team.elapsed = trainer.total_seconds();
    return team;
  }

  // All ranks train on what one team has not finished, from the epoch on that it has come to, or from what an earlier
  // start of the run saved of that. Returns the run's seconds so far.
  double join(Team& mine, const TeamMeeting::Met& met, double elapsed) {
    const bool late = in_coarse_ == (mine.end == TeamEnd::unfinished);  // the coarse team?
    const TrainStep all = joined_step(step(late), late ? what_.teams.coarse : what_.teams.dense, at_.team.size());
    const Workplace place = at_.of(at_.team, report(late));
    if (!at_.data.loaded()) at_.data.load(at_.team);
    Trainer trainer(place, what_.config.training, elapsed);
    at_.data.load(at_.team);
    trainer.rehearse(what_.config, what_.plan, all);
    std::optional<TrainState> state;
    if (joined_before(late)) state = trainer.saved(learner(late), all);
    if (!state) {
      hand_round(at_.backend, learner(late), LearnerPart::all, true, at_.team, root(late));
      state = share_state(mine.state, all, at_.team, root(late));
      state->history.record.joined = state->stop.epochs();
      at_.report.log(
          fmt::format("stage {}: the {} team was ready first, waited {:.2f} s and joined the {} team after {} of its "
                      "epochs: batch {}",
                      all.stage, to_string(step(!late).role), met.longest, to_string(all.role),
                      state->history.record.joined, all.batch));
    }
    trainer.train(learner(late), all, *state, [] { return false; });
    if (in_coarse_ == late) mine.state = std::move(state);
    return trainer.total_seconds();
  }

  // The records and lines of both teams become those of the run.
  void tell(const Team& mine) {
    const StepHistory coarse = share_history(mine.state, at_.team, 0);
    const StepHistory dense = share_history(mine.state, at_.team, what_.teams.coarse);
    records_ = {coarse.record, dense.record};
    std::string log = own_.log_text();
    at_.team.broadcast(log, what_.teams.coarse);
    at_.report.take_over({coarse, dense}, log);
    const StageRecord& early = coarse.record.waited > dense.record.waited ? coarse.record : dense.record;
    if (coarse.record.joined == 0 && dense.record.joined == 0)
      at_.report.log(fmt::format("stage {}: the {} team was ready first and waited {:.2f} s for the other", early.stage,
                                 early.role, early.waited));
    if (!at_.saving) return;
    at_.saving->checkpoints.add(what_.stage.coarse, coarse);
    at_.saving->checkpoints.add(*what_.stage.dense, dense);
  }

  const ConcurrentStage& what_;
  const Workplace& at_;
  Learner& coarse_;
  std::optional<Learner> dense_;
  bool in_coarse_;
  Comm team_;
  TeamMeeting meeting_;
  RunReport own_;  // of the dense team's root; else silent
  std::array<StageRecord, 2> records_;
};

}  // namespace

TrainedAtOnce train_at_once(const ConcurrentStage& what, Learner& coarse, const Workplace& at, double elapsed) {
  return AtOnce(what, coarse, at).run(elapsed);
}

}  // namespace mrmf
