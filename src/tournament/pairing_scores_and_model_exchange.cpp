// What happens when trainers meet: pairing, scores on held-out rows, and how models travel.
#include "src/tournament/tournament.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "layers/network.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

constexpr std::uint64_t kPairs = 0x7061697273, kMutation = 0x6d7574617465;  // apart from other uses of a seed

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The standard error of the mean of values.
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

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;  // floats: a megabyte

// A layer with another's weights travels with that one: its own would be written over.
void require_owner(const std::string& name, const LayerSpec& layer, const Network& network) {
  if (layer.weights_of.empty()) return;
  for (const LayerEntry& entry : network.entries())
    if (entry.spec.name == layer.weights_of && names_layer(name, entry.spec)) return;
  throw ConfigError(
      fmt::format("tournament.exchange names \"{}\", and {} has the weights of {}; name that layer: who has its "
                  "weights goes with it",
                  name, layer.name, layer.weights_of));
}

std::vector<bool> layers_of(const std::vector<std::string>& names, const Network& network) {
  std::vector<bool> travels(network.size(), names.empty());
  for (const std::string& name : names) {
    bool found = false;
    for (std::size_t i = 0; i < network.size(); ++i) {
      const LayerSpec& spec = network.entry(i).spec;
      if (!names_layer(name, spec)) continue;
      require_owner(name, spec, network);
      travels[i] = found = true;
    }
    if (!found)
      throw ConfigError("tournament.exchange names \"" + name +
                        "\", which stands for no layer of the model; the layers are listed by mrmf inspect");
  }
  return travels;
}

void add(std::vector<ArenaSpan>& spans, const ArenaSpan& span) {
  if (span.count == 0) return;
  if (!spans.empty() && spans.back().end() == span.first)
    spans.back().count += span.count;
  else
    spans.push_back(span);
}

// Calls visit(first, part) for the parts of the spans that hold floats [first, first + count).
template <class Visit>
void for_each_part(const std::vector<Span>& spans, std::size_t first, std::size_t count, const Visit& visit) {
  std::size_t begin = 0;
  for (const Span span : spans) {
    const std::size_t from = std::max(first, begin), to = std::min(first + count, begin + span.size());
    if (from < to) visit(from - first, span.subspan(from - begin, to - from));
    begin += span.size();
  }
}

}  // namespace

void require_layers(const std::vector<std::string>& names, const Network& network) { layers_of(names, network); }

ExchangedTensors::ExchangedTensors(ModelState& model_state, const std::vector<std::string>& names)
    : model_state_(model_state) {
  Model& model = model_state.model;
  const Network& network = model.network();
  const std::vector<bool> travels = layers_of(names, network);
  if (names.empty()) {
    params_ = {{0, std::ssize(model.params())}};
    state_ = {{0, std::ssize(model.state())}};
    bottom_ = top_ = true;
    return;
  }
  bottom_ = top_ = true;
  for (std::size_t i = 0; i < network.size(); ++i) {
    const ArenaSpan& own = model.layout().params_of(i);
    if (travels[i]) {
      add(params_, own);
      add(state_, network.entry(i).state);
    } else if (own.count > 0) {
      (network.entry(i).top ? top_ : bottom_) = false;
    }
  }
}

std::vector<Span> ExchangedTensors::model() const {
  std::vector<Span> spans;
  for (const ArenaSpan& span : params_) spans.push_back(span_at(model_state_.model.params(), span));
  for (const ArenaSpan& span : state_) spans.push_back(span_at(model_state_.model.state(), span));
  return spans;
}

std::vector<Span> ExchangedTensors::moments() const {
  std::vector<Span> spans;
  for (const Span all : model_state_.optimizer.moments())
    for (const ArenaSpan& span : params_) spans.push_back(span_at(all, span));
  return spans;
}

MomentAges ExchangedTensors::ages(const MomentAges& own, const MomentAges& visitor) const {
  return {bottom_ ? visitor.bottom : own.bottom, top_ ? visitor.top : own.top};
}

std::size_t floats_of(const std::vector<Span>& spans) {
  std::size_t count = 0;
  for (const Span span : spans) count += span.size();
  return count;
}

void Route::send(Backend& backend, const std::vector<Span>& from, const std::vector<bool>& gives,
                 const Arrived& arrived) {
  const std::size_t all = floats_of(from), most = std::min(all, kPiece);
  std::vector<std::vector<float>> pieces(roots_.size());
  for (std::size_t s = 0; s < roots_.size(); ++s)
    if (gives[s]) pieces[s].resize(most);
  for (std::size_t first = 0; first < all; first += kPiece) {
    const std::size_t count = std::min(kPiece, all - first);
    for (std::size_t s = 0; s < roots_.size(); ++s) {
      if (!gives[s]) continue;
      const Span piece = Span(pieces[s]).first(count);
      if (ranks_.rank() == roots_[s])
        for_each_part(from, first, count,
                      [&](std::size_t at, Span part) { backend.read(part, piece.subspan(at, part.size())); });
      ranks_.broadcast(piece, roots_[s]);
    }
    for (std::size_t s = 0; s < roots_.size(); ++s)
      if (gives[s] && static_cast<int>(s) != mine_) arrived(first, Span(pieces[s]).first(count));
  }
}

std::vector<std::vector<std::int64_t>> Route::tell(const std::vector<std::int64_t>& mine) {
  std::vector<std::vector<std::int64_t>> all(roots_.size(), mine);
  for (std::size_t s = 0; s < roots_.size(); ++s) ranks_.broadcast(all[s], roots_[s]);
  return all;
}

void write_to(Backend& backend, const std::vector<Span>& spans, std::size_t first, ConstSpan values) {
  for_each_part(spans, first, values.size(),
                [&](std::size_t at, Span part) { backend.write(values.subspan(at, part.size()), part); });
}

void swap_with(Backend& backend, const std::vector<Span>& spans, std::vector<float>& values) {
  std::vector<float> own;
  std::size_t at = 0;
  for (const Span span : spans)
    for_each_chunk(span, kPiece, [&](Span part) {
      const Span stored = Span(values).subspan(at, part.size());
      own.resize(part.size());
      backend.read(part, own);
      backend.write(stored, part);
      std::ranges::copy(own, stored.begin());
      at += part.size();
    });
}

}  // namespace mrmf
