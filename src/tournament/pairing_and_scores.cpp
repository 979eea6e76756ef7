#include "src/tournament/pairing_and_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

constexpr std::uint64_t kPairs = 0x7061697273, kMutation = 0x6d7574617465;  // apart from other uses of a seed

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of the mean of values.
double standard_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (n < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / (n - 1) / n);
}

}  // namespace

std::vector<int> partners(int trainers, std::uint64_t seed, int round) {
  std::vector<int> order(static_cast<std::size_t>(trainers)), partner(order.size());
  std::iota(order.begin(), order.end(), 0);
  Rng random(mix(seed, kPairs, static_cast<std::uint64_t>(round)));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform() * static_cast<double>(i))]);
  std::iota(partner.begin(), partner.end(), 0);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    partner[static_cast<std::size_t>(order[i])] = order[i + 1];
    partner[static_cast<std::size_t>(order[i + 1])] = order[i];
  }
  return partner;
}

double Score::error() const { return standard_error(groups); }

Decision decide(const Score& own, const Score& visitor) {
  if (!std::isfinite(visitor.value)) return {};
  if (!std::isfinite(own.value)) return {.replaced = true};
  MRMF_CHECK(own.groups.size() == visitor.groups.size(), "scores of different rows");
  std::vector<double> better;
  for (std::size_t i = 0; i < own.groups.size(); ++i) better.push_back(own.groups[i] - visitor.groups[i]);
  std::erase_if(better, [](double difference) { return !std::isfinite(difference); });
  Decision decision{.error = standard_error(better)};
  const double difference = own.value - visitor.value;
  decision.replaced = difference > 0 && difference > decision.error;
  return decision;
}

std::vector<int> truncation_sources(const std::vector<RankedScore>& scores, int best) {
  MRMF_CHECK(best > 0, "no trainer feeds the others");
  std::vector<int> ranking, source(scores.size());
  std::iota(source.begin(), source.end(), 0);
  const auto of = [&](int trainer) -> const RankedScore& { return scores[static_cast<std::size_t>(trainer)]; };
  for (const int trainer : source)
    if (of(trainer).plays) ranking.push_back(trainer);
  std::ranges::stable_sort(ranking, [&](int a, int b) {
    const bool finite = std::isfinite(of(a).value), other = std::isfinite(of(b).value);
    return finite != other ? finite : finite && of(a).value < of(b).value;
  });
  for (std::size_t index = static_cast<std::size_t>(best); index < ranking.size(); ++index) {
    const int loser = ranking[index], winner = ranking[index % static_cast<std::size_t>(best)];
    if (!std::isfinite(of(winner).value)) continue;
    const double difference = of(loser).value - of(winner).value, error = std::hypot(of(loser).error, of(winner).error);
    if (std::isfinite(of(loser).value) && !(difference > 0 && difference > error)) continue;
    source[static_cast<std::size_t>(loser)] = winner;
  }
  return source;
}

double mutation(std::uint64_t seed, int round, int trainer, int what) {
  Rng random(mix(mix(seed, kMutation, static_cast<std::uint64_t>(round)), static_cast<std::uint64_t>(trainer),
                 static_cast<std::uint64_t>(what)));
  return random.uniform() < 0.5 ? 0.8 : 1.2;
}

namespace {

constexpr Index kGroups = 32, kLeastRows = 8;  // a metric of fewer rows, such as R^2, says little

const Split& held_out_of(PhaseContext& context) {
  Split* const split = context.session.ctx.data.held_out();
  MRMF_CHECK(split != nullptr, "a trainer holds rows out");
  return *split;
}

std::optional<Metric> scored_metric(const PhaseContext& context) {
  const std::optional<MetricValue> metric = context.objective.metric();
  return context.phase.stop.monitor == Monitor::metric && metric ? std::optional(metric->metric) : std::nullopt;
}

std::optional<Batches> make_batches(PhaseContext& context, const Split& split) {
  if (context.windowed) return {};
  const RunContext& ctx = context.session.ctx;
  const Execution& execution = context.model().execution();
  const SampleBlock block{execution.input_box, execution.output_box, context.model().network().output().spatial};
  return std::optional<Batches>(std::in_place, ctx.backend, split, context.phase.resolution,
                                context.session.config.rows_at_once(context.phase.batch),
                                ctx.grid(context.phase.resolution) != nullptr ? &block : nullptr);
}

// Windows are computed one after the other, so there may be any number of samples in a group.
Index rows_at_once(const PhaseContext& context, const Split& split) {
  return context.windowed ? split.order.samples : context.session.config.rows_at_once(context.phase.batch);
}

}  // namespace

EpochOrder score_groups(const Split& held_out, Index rows_at_once, bool by_metric) {
  OrderSettings order = held_out.order;
  order.shuffle = false;
  const Index rows = order.samples, shards = order.shards, least = by_metric ? kLeastRows : 1;
  const Index groups = std::clamp<Index>(rows / least, 1, kGroups);
  // Rows of a step over all ranks, a multiple of the shards, as many as a rank computes at once.
  const Index per_shard = std::clamp<Index>((rows + groups * shards - 1) / (groups * shards), 1,
                                            std::max<Index>(rows_at_once * order.ranks / shards, 1));
  order.batch = validation_batch(order, per_shard * shards / order.ranks);
  return epoch_order(order, 0, 0, 0);
}

GroupScores::GroupScores(PhaseContext& context)
    : by_metric_(scored_metric(context)),
      split_(&held_out_of(context)),
      order_(score_groups(*split_, rows_at_once(context, *split_), by_metric_.has_value())),
      batches_(make_batches(context, *split_)) {
  if (context.windowed) return;
  if (context.replicas) {
    std::set<Index> rows(order_.shard_rows.begin(), order_.shard_rows.end());
    rows.erase(0);
    context.replicas->prepare(rows);
  } else {
    for (const Range& step : order_.steps)
      if (step.count > 0) context.model().prepare(step.count);
  }
}

GroupScores& GroupScores::of(PhaseContext& context) {
  if (!context.meeting) context.meeting = std::make_unique<GroupScores>(context);
  return dynamic_cast<GroupScores&>(*context.meeting);
}

Index GroupScores::rows(const PhaseContext& context) const { return scored_rows(context, *split_); }

void GroupScores::read_ahead(PhaseContext& context) {
  if (batches_) return batches_->expect(order_);
  EpochOrder singly = order_;
  singly.steps.clear();
  for (Index row = 0; row < std::ssize(singly.ids); ++row) singly.steps.push_back({row, 1});
  split_->store->expect(context.phase.resolution, singly);
}

Score GroupScores::score(PhaseContext& context) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const ScoredRows rows{batches_ ? &*batches_ : nullptr, *split_, order_};
  read_ahead(context);
  Score score;
  double sum = 0, weight = 0;
  bool finite = true;
  for (std::size_t k = 0; k < order_.steps.size(); ++k) {
    const double loss = score_rows(context, rows, {static_cast<Index>(k), 1});
    const auto count = static_cast<double>(order_.global_rows[k]);
    finite = finite && std::isfinite(loss);
    const std::optional<MetricValue> metric = context.objective.metric();
    const double group = by_metric_ ? -rising(*by_metric_, metric ? metric->value : nothing) : loss / count;
    score.groups.push_back(group);
    if (!std::isfinite(group)) continue;
    sum += group * count, weight += count;
  }
  score.value = finite && weight > 0 ? sum / weight : nothing;
  return score;
}

}  // namespace mrmf
