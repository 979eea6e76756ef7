#include "src/training/shard_replicas.hpp"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "src/system/timer.hpp"
#include "src/training/worker_pool.hpp"

namespace mrmf {

std::unique_ptr<Backend> one_thread_backend(const Backend& like) {
  return like.name() == "reference" ? make_reference_backend() : make_onednn_backend(1);
}

namespace {

/// A lane's rows of a batch.
struct Share {
  const Step& step;  // of the whole batch
  const Feed::Batch& batch;
  Index first = 0, rows = 0;
};

// The lane's own copy of its rows: aligned alike on every rank.
ConstTensor copy_rows(const ConstTensor& from, const Share& share, Arena& to) {
  const auto row = static_cast<std::size_t>(from.shape.per_sample());
  const auto first = static_cast<std::size_t>(share.first), rows = static_cast<std::size_t>(share.rows);
  const Span copy = to.span().first(rows * row);
  std::ranges::copy(from.data.subspan(first * row, rows * row), copy.begin());
  return {from.shape.rows(share.rows), copy};
}

// Made and used in one thread of a crew. As a RankSum it is what batch norm adds its statistics by: in a meeting of all
// lanes.
class Lane final : public RankSum {
 public:
  Lane(const Backend& like, Model& leader, const LaneSettings& settings, Crew& crew)
      : settings_(settings),
        leader_(leader),
        crew_(crew),
        backend_(one_thread_backend(like)),
        model_(*backend_, {settings.network, 0, true}, leader.params()),
        x_(backend_->allocate(model_.network().input().count())),
        targets_(backend_->allocate(model_.network().output().count())) {}

  Model& model() { return model_; }
  std::span<double> statistics() { return statistics_; }
  double& loss() { return loss_; }

  void train(const Share& share) {
    const Step step = step_of(share);
    const ConstTensor x = copy_rows(share.batch.x, share, x_);
    forward(step, x, copy_rows(share.batch.targets, share, targets_), model_.output_gradient(share.rows));
    model_.backward(step, x);
  }
  void evaluate(const Share& share) {
    forward(step_of(share), copy_rows(share.batch.x, share, x_), copy_rows(share.batch.targets, share, targets_), {});
    loss_ += model_.loss()[0];
  }
  void follow() { std::ranges::copy(leader_.state(), model_.state().begin()); }

  void sum(std::span<double> values) override {
    statistics_ = values;
    crew_.meet();
  }
  // Gradients are added when all lanes are done.
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }

 private:
  Step step_of(const Share& share) {
    Step step = share.step;
    step.ids = step.ids.subspan(static_cast<std::size_t>(share.first), static_cast<std::size_t>(share.rows));
    step.ranks = settings_.global_batch_norm && step.training ? this : nullptr;
    return step;
  }
  void forward(const Step& step, const ConstTensor& x, const ConstTensor& targets, Span dy) {
    const ConstTensor y = model_.forward(step, x);
    backend_->loss(step, settings_.loss, y, targets, dy, model_.loss());
  }

  const LaneSettings& settings_;
  Model& leader_;
  Crew& crew_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  Arena x_, targets_;
  std::span<double> statistics_;  // of the batch norm under way
  double loss_ = 0;               // of the samples evaluated so far
};

}  // namespace

struct Lanes::State {
  LaneSettings settings;
  Comm& team;
  Model& model;
  SumTime time;
  std::vector<std::unique_ptr<Lane>> lanes;
  Crew crew;  // last: its threads end before what they work on

  State(const Backend& backend, Comm& team_of, Model& leader, const LaneSettings& lane_settings)
      : settings(lane_settings),
        team(team_of),
        model(leader),
        lanes(static_cast<std::size_t>(settings.own)),
        crew(settings.own, omp_get_max_threads()) {
    crew.run([&](int i) { at(i) = std::make_unique<Lane>(backend, model, settings, crew); });
  }

  std::unique_ptr<Lane>& at(int i) { return lanes[static_cast<std::size_t>(i)]; }

  // total = the sum of a span of every one of these lanes, over the team.
  template <class Value, class SpanOf>
  void add(const std::vector<Lane*>& of, const SpanOf& span_of, std::span<Value> total) {
    std::vector<std::span<const Value>> summands;
    for (Lane* lane : of) summands.push_back(span_of(*lane));
    team.sum_summands(summands, settings.all, total);
  }

  std::vector<Lane*> everyone() const {
    std::vector<Lane*> all;
    for (const auto& lane : lanes) all.push_back(lane.get());
    return all;
  }
  // Those whose shard has rows in this batch.
  std::vector<Lane*> busy(std::span<const Index> rows) const {
    std::vector<Lane*> busy;
    for (std::size_t i = 0; i < lanes.size(); ++i)
      if (rows[i] > 0) busy.push_back(lanes[i].get());
    return busy;
  }

  void run(
      const std::vector<Share>& shares, void (Lane::*action)(const Share&),
      const std::function<void()>& meeting = [] {}) {
    crew.run(
        [&](int i) {
          const Share& share = shares[static_cast<std::size_t>(i)];
          at(i)->follow();
          if (share.rows > 0) (*at(i).*action)(share);
        },
        meeting);
  }

  // Batch norm's sums of the lanes that wait for them.
  void add_statistics(const std::vector<Lane*>& waiting) {
    const Timer timer;
    std::vector<double> total(waiting.front()->statistics().size());
    add(
        waiting, [](Lane& lane) { return lane.statistics(); }, std::span(total));
    for (Lane* lane : waiting) std::ranges::copy(total, lane->statistics().begin());
    time.waited += timer.seconds();
  }

  void update_state(const std::vector<Lane*>& busy) {
    const Span state = model.state();
    if (settings.global_batch_norm) {  // the same in every lane that had rows
      std::ranges::copy(busy.front()->model().state(), state.begin());
      return;
    }
    add(
        everyone(), [](Lane& lane) { return lane.model().state(); }, state);
    for (float& value : state) value = static_cast<float>(double{value} / settings.all);
  }
};

namespace {

std::vector<Share> shares_of(const Step& step, std::span<const Index> rows, const Feed::Batch& batch) {
  std::vector<Share> shares;
  Index first = 0;
  for (const Index count : rows) {
    shares.push_back({step, batch, first, count});
    first += count;
  }
  return shares;
}

}  // namespace

Lanes::Lanes(const Backend& backend, Comm& team, Model& model, const LaneSettings& settings)
    : state_(std::make_unique<State>(backend, team, model, settings)) {}
Lanes::~Lanes() = default;

void Lanes::prepare(const std::set<Index>& rows) {
  state_->crew.run([&](int i) {
    for (const Index count : rows) state_->at(i)->model().prepare(count);
  });
}

void Lanes::train(const Step& step, std::span<const Index> rows, const Feed::Batch& batch) {
  const std::vector<Lane*> busy = state_->busy(rows);
  state_->run(shares_of(step, rows, batch), &Lane::train, [&] { state_->add_statistics(busy); });
  const Timer timer;
  state_->add(
      busy, [](Lane& lane) { return lane.model().reduced(); }, state_->model.reduced());
  state_->update_state(busy);
  state_->time.waited += timer.seconds();
}

void Lanes::evaluate(const Step& step, std::span<const Index> rows, const Feed::Batch& batch) {
  state_->run(shares_of(step, rows, batch), &Lane::evaluate);
}

double Lanes::take_loss() {
  double sum = 0;
  state_->add(
      state_->everyone(), [](Lane& lane) { return std::span(&lane.loss(), 1); }, std::span(&sum, 1));
  for (const auto& lane : state_->lanes) lane->loss() = 0;
  return sum;
}

SumTime Lanes::take_time() { return std::exchange(state_->time, {}); }

}  // namespace mrmf
