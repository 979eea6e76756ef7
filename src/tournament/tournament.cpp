#include "src/tournament/tournament.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "src/run/signals.hpp"

namespace mrmf {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastFactor = 0.01, kMostFactor = 100;  // limits of mutations, against the trainer's own setting

std::int64_t bits(double value) { return std::bit_cast<std::int64_t>(value); }
double from_bits(std::int64_t value) { return std::bit_cast<double>(value); }

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

int TrainerTeams::of(int rank) const {
  int trainer = 0;
  while (trainer + 1 < count() && first[at(trainer + 1)] <= rank) ++trainer;
  return trainer;
}

TrainerTeams make_trainer_teams(const TournamentConfig& tournament, int ranks) {
  std::vector<int> shares = tournament.share;
  if (shares.empty()) shares.assign(at(tournament.trainers), 1);
  const int divisor = std::accumulate(shares.begin(), shares.end(), 0, std::gcd<int, int>);
  const int parts = std::accumulate(shares.begin(), shares.end(), 0) / divisor;
  if (ranks % parts != 0)
    throw ConfigError(
        fmt::format("tournament.trainers = {}{} does not fit {} rank{}: each trainer needs ranks of its own; start {} "
                    "or a multiple of it, such as mpirun -n {} mrmf train ...",
                    tournament.trainers, tournament.share.empty() ? "" : " with tournament.share", ranks,
                    ranks == 1 ? "" : "s", parts, parts));
  TrainerTeams teams;
  int first = 0;
  for (const int share : shares) {
    teams.first.push_back(first);
    teams.size.push_back(share / divisor * (ranks / parts));
    first += teams.size.back();
  }
  return teams;
}

/// A trainer's part in one round.
struct Tournament::Visit {
  PhaseContext& context;
  TrainState& state;
  GroupScores& scores;
  ExchangedTensors travelling;
  TournamentRecord record{};

  Backend& backend() { return context.backend(); }
  double rate() const { return context.phase.optimizer.learning_rate * state.rate.state().scale; }
  double decay() const { return context.phase.optimizer.weight_decay * state.tournament.weight_decay; }
};

Tournament::Tournament(TournamentSettings settings, Comm& world, Comm& team)
    : settings_(std::move(settings)),
      world_(world.duplicate()),
      team_(team),
      trainer_(settings_.teams.of(world.rank())),
      rendezvous_(world) {
  world_.limit(0);
}

Tournament::~Tournament() = default;

std::optional<Index> Tournament::next(const TrainState& state) const {
  const TournamentConfig& config = settings_.config;
  if (config.selection == Selection::none || state.tournament.rounds >= config.rounds) return {};
  return Index{config.steps} * (state.tournament.rounds + 1);
}

// What all trainers say, each by its first rank.
Tournament::Attendance Tournament::arrive(Status status, int round) {
  constexpr std::size_t numbers = 3;
  const int trainers = settings_.teams.count();
  std::vector<float> said(numbers * at(trainers));
  if (team_.root()) {
    float* const mine = said.data() + numbers * at(trainer_);
    mine[0] = static_cast<float>(status), mine[1] = saved_ ? 1 : 0, mine[2] = static_cast<float>(round);
  }
  rendezvous_.sum_when_all_arrive(said, team_);
  Attendance here;
  for (int t = 0; t < trainers; ++t) {
    const float* const one = said.data() + numbers * at(t);
    here.status.push_back(static_cast<Status>(static_cast<int>(one[0])));
    here.stopped = here.stopped || here.status.back() == Status::stopped;
    here.saved = here.saved || one[1] > 0;
    if (!here.plays(t)) continue;
    MRMF_CHECK(here.round < 0 || here.round == static_cast<int>(one[2]), "trainers meet for different rounds");
    here.round = static_cast<int>(one[2]);
  }
  stop_known_ = here.stopped;
  return here;
}

// Either all have saved since the last meeting or none, so that all can continue from the same round. Then they gather
// once more, where whoever could not save sits out. Where they stop, they do not.
Tournament::Attendance Tournament::gather(Status status, int round, const std::function<void()>& save) {
  if (std::exchange(saving_, false)) return arrive(status, round);
  const Attendance here = arrive(status, round);
  if (!here.stopped && (here.round < 0 || (here.round > 0 && !here.saved))) return here;
  in_round_ = here.stopped;
  saving_ = true;
  if (status == Status::plays && !saved_) save();
  saving_ = in_round_ = false;
  return here.stopped ? here : arrive(status, round);
}

void Tournament::sit_out(Status status, const std::string& why) {
  bool said = status != Status::dropped || why.empty();
  const auto next = [&] { return gather(status, 0, [] {}); };
  for (Attendance here = next(); here.round >= 0 || here.stopped; here = next()) {
    if (here.stopped) throw Stopped{};
    saved_ = false;
    play(nullptr, here);
    TournamentRecord gone{.round = here.round + 1, .trainer = trainer_, .status = "dropped", .note = why};
    gone.parent = trainer_;
    tell(said ? std::nullopt : std::optional(gone));
    said = true;
  }
}

void Tournament::drop(const std::string& why) { sit_out(Status::dropped, why); }

void Tournament::stop() {
  if (!stop_known_) arrive(Status::stopped);
}

void Tournament::meet(PhaseContext& context, TrainState& state, const std::function<void()>& save) {
  const Timer timer;
  const double computed = context.session.clock.time().compute;
  const int round = state.tournament.rounds;
  const Attendance here = gather(Status::plays, round, save);
  if (here.stopped) {
    context.session.ctx.log.line(
        fmt::format("stopped with another trainer before round {}; run the same command again to "
                    "continue",
                    round + 1));
    throw Stopped{};
  }
  saved_ = false;
  context.complete_moments();
  in_round_ = true;
  Visit visit{context, state, GroupScores::of(context),
              ExchangedTensors(context.model_state, settings_.config.exchange)};
  visit.record = {.round = round + 1,
                  .trainer = trainer_,
                  .steps = *next(state),
                  .own = kNothing,
                  .other = kNothing,
                  .parent = trainer_};
  play(&visit, here);
  if (visit.record.replaced) mutate(visit);
  ++state.tournament.rounds;
  visit.record.learning_rate = visit.rate();
  visit.record.weight_decay = visit.decay();
  visit.record.dropout = state.tournament.dropout;
  context.session.ctx.log.line(to_text(visit.record));
  tell(visit.record);
  in_round_ = false;
  EpochTime& time = context.session.clock.time();
  time.communication += std::max(0.0, timer.seconds() - (time.compute - computed));
}

void Tournament::play(Visit* visit, const Attendance& here) {
  if (settings_.config.selection == Selection::truncation) return play_truncation(visit, here);
  play_pair(visit, here);
}

// Evaluations may take longer than a limit on waiting allows.
void Tournament::wait_for_scores() {
  std::vector<float> nothing(1);
  rendezvous_.sum_when_all_arrive(nothing, team_);
}

// Equal teams: each rank meets the ranks of the same number. Others: all ranks of those that meet hear the first of
// each.
Route Tournament::route_between(const std::vector<int>& source_of, bool pairs) {
  const TrainerTeams& teams = settings_.teams;
  const auto group = [&](int trainer) {
    return pairs ? std::min(trainer, source_of[at(trainer)]) : source_of[at(trainer)];
  };
  const int own = group(trainer_), most = *std::ranges::max_element(teams.size);
  bool equal = true;
  for (int t = 0; t < teams.count(); ++t)
    equal = equal && (group(t) != own || teams.size[at(t)] == teams.size[at(own)]);
  const bool first = trainer_ == own;
  Comm ranks = world_.split(own * most + (equal ? team_.rank() : 0), first ? 0 : 1);
  const int partner = source_of[at(trainer_)];
  if (!pairs) return {std::move(ranks), {0}, first ? 0 : -1};
  if (partner == trainer_) return {std::move(ranks), {0}, 0};
  return {std::move(ranks), {0, equal ? 1 : teams.size[at(own)]}, first ? 0 : 1};
}

// Both models are scored by both trainers, each on its own rows; what one keeps does not bind the other.
void Tournament::play_pair(Visit* visit, const Attendance& here) {
  std::vector<int> partner = partners(settings_.teams.count(), settings_.seed, here.round);
  for (int t = 0; t < settings_.teams.count(); ++t)
    if (!here.plays(t) || !here.plays(partner[at(t)])) partner[at(t)] = t;
  Route route = route_between(partner, true);
  const bool meets = visit != nullptr && partner[at(trainer_)] != trainer_;
  if (meets) {
    Backend& backend = visit->backend();
    const std::vector<Span> model = visit->travelling.model();
    const Score own = visit->scores.score(visit->context);
    std::vector<float> other(floats_of(model));
    route.send(backend, model, {true, true}, [&](std::size_t first, ConstSpan values) {
      std::ranges::copy(values, other.begin() + static_cast<std::ptrdiff_t>(first));
    });
    swap_with(backend, model, other);
    const Score visitor = visit->scores.score(visit->context);
    const Decision decision = decide(own, visitor);
    if (!decision.replaced) swap_with(backend, model, other);
    visit->state.tournament.scored += 2 * visit->scores.rows(visit->context);
    TournamentRecord& record = visit->record;
    record.partner = partner[at(trainer_)];
    record.own = visit->scores.shown(own.value), record.other = visit->scores.shown(visitor.value);
    record.error = decision.error, record.replaced = decision.replaced;
  }
  wait_for_scores();
  if (meets) take_moments(*visit, route, visit->record.replaced);
}

void Tournament::play_truncation(Visit* visit, const Attendance& here) {
  Score own{.value = kNothing};
  if (visit != nullptr) {
    own = visit->scores.score(visit->context);
    visit->state.tournament.scored += visit->scores.rows(visit->context);
  }
  wait_for_scores();
  const std::vector<double> values = world_.all_gather(own.value), errors = world_.all_gather(own.error());
  std::vector<RankedScore> scores;
  for (int t = 0; t < settings_.teams.count(); ++t) {
    const std::size_t rank = at(settings_.teams.first[at(t)]);
    scores.push_back({values[rank], errors[rank], here.plays(t)});
  }
  const std::vector<int> source = truncation_sources(scores, settings_.config.best);
  Route route = route_between(source, false);
  const int from = source[at(trainer_)];
  const bool replaced = from != trainer_;
  if (visit != nullptr) {
    TournamentRecord& record = visit->record;
    record.own = visit->scores.shown(own.value), record.replaced = replaced;
    if (replaced) {
      record.partner = from;
      record.other = visit->scores.shown(scores[at(from)].value);
      record.error = std::hypot(scores[at(from)].error, own.error());
    }
  }
  if (visit == nullptr || std::ranges::count(source, from) == 1) return;
  const std::vector<Span> model = visit->travelling.model();
  route.send(visit->backend(), model, {true},
             [&](std::size_t first, ConstSpan piece) { write_to(visit->backend(), model, first, piece); });
  take_moments(*visit, route, replaced);
}

// The rest of what a trainer has that takes another's model: moments, their ages, and what mutations change.
void Tournament::take_moments(Visit& visit, Route& route, bool takes) {
  Optimizer& optimizer = visit.context.model_state.optimizer;
  const MomentAges ages = optimizer.ages();
  const auto told = route.tell({takes ? 1 : 0, static_cast<std::int64_t>(ages.bottom),
                                static_cast<std::int64_t>(ages.top), bits(visit.rate()), bits(visit.decay()),
                                bits(visit.state.tournament.dropout), bits(visit.state.tournament.weight_decay)});
  std::vector<bool> gives(route.senders(), true);
  if (route.senders() == 2) gives = {told[1][0] != 0, told[0][0] != 0};
  const std::vector<Span> moments = visit.travelling.moments();
  route.send(visit.backend(), moments, gives, [&](std::size_t first, ConstSpan values) {
    if (takes) write_to(visit.backend(), moments, first, values);
  });
  if (!takes) return;
  visit.record.parent = visit.record.partner;
  visit.context.model_state.workers.begin(visit.context.backend());
  const std::vector<std::int64_t>& theirs = told[route.senders() == 2 ? at(1 - route.mine()) : 0];
  optimizer.set_ages(
      visit.travelling.ages(ages, {static_cast<std::uint64_t>(theirs[1]), static_cast<std::uint64_t>(theirs[2])}));
  const auto& mutated = settings_.config.mutate;
  const auto travels = [&](Mutated what) { return std::ranges::find(mutated, what) != mutated.end(); };
  const OptimizerSettings& own = visit.context.phase.optimizer;
  if (travels(Mutated::learning_rate)) visit.state.rate.scale(from_bits(theirs[3]) / own.learning_rate);
  // Without a decay of its own the phase may have parts that have one.
  if (travels(Mutated::weight_decay))
    visit.state.tournament.weight_decay =
        own.weight_decay > 0 ? from_bits(theirs[4]) / own.weight_decay : from_bits(theirs[6]);
  if (travels(Mutated::dropout)) visit.state.tournament.dropout = from_bits(theirs[5]);
}

void Tournament::mutate(Visit& visit) {
  TrainState& state = visit.state;
  for (const Mutated what : settings_.config.mutate) {
    const double factor = mutation(settings_.seed, state.tournament.rounds, trainer_, static_cast<int>(what));
    const auto changed = [&](double value) { return std::clamp(value * factor, kLeastFactor, kMostFactor); };
    switch (what) {
      case Mutated::learning_rate: state.rate.scale(changed(state.rate.state().scale)); break;
      case Mutated::weight_decay: state.tournament.weight_decay = changed(state.tournament.weight_decay); break;
      case Mutated::dropout: state.tournament.dropout = changed(state.tournament.dropout); break;
    }
  }
  visit.context.model_state.optimizer.configure(optimizer_at(visit.context.phase, state));
  visit.context.dropout_factor = static_cast<float>(state.tournament.dropout);
  visit.backend().drop_captures();  // a captured step has the rates of dropout
}

// Brings the records of all trainers to the world's first rank.
void Tournament::tell(const std::optional<TournamentRecord>& mine) {
  std::vector<TournamentRecord> all;
  for (int t = 0; t < settings_.teams.count(); ++t) {
    std::string text = t == trainer_ && mine ? to_json(*mine) : "";
    world_.broadcast(text, settings_.teams.first[at(t)]);
    if (!text.empty()) all.push_back(tournament_record_from_json(text, "a trainer's record"));
  }
  collective_try_on_root(world_, [&] {
    if (settings_.told) settings_.told(all);
  });
}

}  // namespace mrmf
