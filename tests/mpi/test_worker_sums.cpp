// Sums over workers whose values travel as codes, and Lion with a momentum on every rank.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "src/training/gradient_compression.hpp"
#include "src/training/training_loop.hpp"
#include "tests/mpi/differences.hpp"
#include "tests/mpi/shared_training.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

using enum Communication;

/// What a training leaves on this rank, and whether all ranks have the same parameters.
struct LionNumbers {
  std::vector<float> params, momentum;
  std::vector<EpochRecord> epochs;
  bool same = false;
};

/// Inputs with a channel of zeros, and so no gradient of its weights, on the first rank alone.
std::vector<float> zeros_on_first_rank() {
  std::vector<float> x = random_values(SharedTraining::kInputs, 1);
  const std::size_t first = x.size() / static_cast<std::size_t>(Comm::world().size());
  for (std::size_t i = 1; i < first; i += 2) x[i] = 0;
  return x;
}

struct LionTraining : SharedTraining {
  LionTraining() : SharedTraining(small_layers(), zeros_on_first_rank()) {
    config.training.epochs = 3;
    config.training.optimizer.name = OptimizerKind::lion;
    config.training.optimizer.beta2 = kLionBeta2;
    config.training.optimizer.learning_rate = 1e-3;
    config.training.optimizer.weight_decay = 0.1;
  }

  LionNumbers train(Communication scheme, MomentaRule rule, Comm& team) {
    Config own = config;
    own.training.sums.communication = scheme;
    own.training.sums.momenta.rule = rule;
    own.data.shards = team.size();
    RunLog silent;
    const Plan plan = make_plan(own);
    Data data(own, team, Data::Reading::later);
    const RunContext ctx{*backend, team, data, silent};
    data.load(DataShare{team});
    ModelState model_state = make_model_state(plan, own, ctx, {1, 1, 1}, 1);
    TrainingLoop loop(ctx, own.training);
    LionNumbers numbers;
    numbers.epochs = loop.train(model_state, plan.last).epochs;
    const auto copy = [&](Span span) { return std::vector<float>(span.begin(), span.end()); };
    numbers.params = copy(model_state.model.params());
    numbers.momentum = copy(model_state.optimizer.moments().front());
    std::uint64_t hash = 0;
    for (const float value : numbers.params) hash = mix(hash, std::bit_cast<std::uint32_t>(value));
    numbers.same = team.all_equal(hash);
    return numbers;
  }
  LionNumbers train(Communication scheme, MomentaRule rule) { return train(scheme, rule, world); }
};

}  // namespace

TEST_CASE("worker sums: ranks get by messages what workers get without them, at odd lengths") {
  Comm world = Comm::world();
  const auto ranks = static_cast<std::size_t>(world.size());
  for (const std::size_t count : {1, 7, 1023, 1025, 5001, 100'003})
    for (const int workers : {1, 2})
      for (const Communication scheme : {bf16, int8, levels8, levels4, vote}) {
        CAPTURE(count);
        CAPTURE(to_string(scheme));
        PackedTensors tensors;
        tensors.add(3, count, 0);
        const std::size_t all = ranks * static_cast<std::size_t>(workers);
        std::vector<std::vector<float>> values;
        for (std::size_t w = 0; w < all; ++w) {
          values.push_back(random_values(static_cast<Index>(count) + 3, mix(count, w)));
          if (w == 0) std::fill_n(values.back().begin() + 3, count / 2, 0.0F);
        }
        const float factor = 2;
        const CodingSettings settings{scheme, most_level({scheme}, static_cast<int>(all)), 5};
        const auto coding = [&](std::size_t first, std::size_t some, std::vector<float>& result) {
          std::vector<WorkerValues> own;
          for (std::size_t w = first; w < first + some; ++w) own.push_back({values[w], {}, &factor, 1});
          return make_sum_coding(settings, tensors, own, result);
        };
        std::vector<float> wanted(count + 3), got(count + 3);
        const auto here = coding(0, all, wanted);
        sum_here({here.get()}, count, static_cast<int>(all));
        CodeMemory memory;
        const auto own = static_cast<std::size_t>(workers);
        PendingSum sum = world.start_sum(
            CodedSum{count, workers, coding(static_cast<std::size_t>(world.rank()) * own, own, got), &memory});
        CHECK(world.sum(1.0) == world.size());
        sum.finish();
        sum.finish();  // once more does nothing
        CHECK(got == wanted);
        if (count > SumCoding::kBlock || ranks == 1) continue;
        // One rank has the only piece: each of the others sends it one message, and gets one.
        const auto message = [](std::size_t codes) { return 8 + (codes + 7) / 8 * 8; };
        const bool adds = world.rank() + 1 == world.size();
        CHECK(memory.take_sent() <=
              (adds ? (ranks - 1) * message(here->result_bytes(count)) : own * message(here->code_bytes(count))));
      }
}

TEST_CASE("worker sums: one rank alone computes plain Lion to the bit, whatever is set") {
  LionTraining training;
  Comm alone = Comm::self();
  const LionNumbers plain = training.train(fp32, MomentaRule::shared, alone);
  for (const Communication scheme : {fp32, bf16, int8, levels8, levels8_l0, levels4, vote}) {
    const LionNumbers got = training.train(scheme, MomentaRule::every, alone);
    CHECK(got.params == plain.params);
    CHECK(got.momentum == plain.momentum);
  }
  training.world.barrier();
}

TEST_CASE("worker sums: directions in float32, with momenta averaged after every step, are exact Lion") {
  for (const int accumulate : {1, 2}) {
    LionTraining training;
    training.config.training.sums.momenta.every = 1;
    training.config.training.accumulate = accumulate;
    const LionNumbers exact = training.train(fp32, MomentaRule::shared), got = training.train(fp32, MomentaRule::every);
    CHECK(got.same);
    CHECK(largest_difference(got.params, exact.params) < 1e-5);  // a step is 1e-3
    CHECK(largest_difference(got.momentum, exact.momentum) < 1e-5);
    CHECK(training.train(fp32, MomentaRule::local).same);
    training.world.barrier();
  }
}

namespace {

// Trains so many steps, and whether all ranks then have the same parameters.
void train_steps(Communication scheme, MomentaRule rule, int steps) {
  LionTraining training;
  CAPTURE(to_string(scheme));
  training.config.training.batch = 2;
  training.config.training.global_batch_norm = false;  // whose sums are as many messages again
  training.config.training.epochs = steps * 2 * training.world.size() / 41 + 1;
  const LionNumbers got = training.train(scheme, rule);
  CHECK(got.same);
  CHECK(got.epochs.back().train_loss < got.epochs.front().train_loss);
  const bool several = training.world.size() > 1;
  CHECK(got.epochs.back().momenta.empty() == !several);
  if (several) CHECK(got.epochs.back().momenta.front().tensor == "conv1/weight");
  if (several && rule == MomentaRule::local) CHECK(got.epochs.back().momenta.front().variance > 0);
  training.world.barrier();
}

}  // namespace

TEST_CASE("worker sums: ranks have the same parameters after a hundred steps of every way") {
  for (const Communication scheme : {bf16, int8, levels8, levels8_l0, levels4, vote})
    train_steps(scheme, MomentaRule::spaced, 100);
}

TEST_CASE("worker sums: ranks have the same parameters after a thousand steps of levels") {
  train_steps(levels8, MomentaRule::local, 1000);
}

TEST_CASE("worker sums: ranks have the same parameters after a thousand votes") {
  train_steps(vote, MomentaRule::local, 1000);
}

TEST_CASE("worker sums: gradients in few bits train as in float32, and the records count the bytes") {
  LionTraining training;
  training.config.model.layers = long_layers();
  const int size = training.world.size();
  const auto values = static_cast<double>(training.train(fp32, MomentaRule::shared).params.size());
  training.config.training.optimizer.name = OptimizerKind::adamw;
  const LionNumbers exact = training.train(fp32, MomentaRule::shared);
  for (const Communication scheme : {fp32, bf16, int8})
    for (const bool feedback : {false, true}) {
      if (feedback && scheme == fp32) continue;
      CAPTURE(to_string(scheme));
      training.config.training.sums.error_feedback = feedback;
      const LionNumbers got = training.train(scheme, MomentaRule::shared);
      CHECK(got.same);
      CHECK(got.epochs.back().train_loss == doctest::Approx(exact.epochs.back().train_loss).epsilon(0.05));
      CHECK(got.epochs.back().sent_bytes == doctest::Approx(sum_bytes(scheme, values, size)).epsilon(0.02));
    }
  training.config.training.sums.error_feedback = false;
  training.config.training.optimizer.name = OptimizerKind::lion;
  for (const Communication scheme : {levels8, levels4, vote}) {
    CAPTURE(to_string(scheme));
    const LionNumbers got = training.train(scheme, MomentaRule::local);
    // Messages and codes have heads, and a piece with zeros is as long again.
    const double predicted = sum_bytes(scheme, values, size), sent = got.epochs.back().sent_bytes;
    CHECK(sent >= 0.98 * predicted);
    CHECK(sent <= (scheme == vote ? 2.1 : 1.1) * predicted + 100 * size);
  }
  training.world.barrier();
}

TEST_CASE("worker sums: momenta of chosen tensors are averaged, the others stay apart") {
  LionTraining training;
  training.config.training.sums.momenta.every = 1;
  training.config.training.sums.momenta.tensors = {"dense*", "conv1/bias"};
  const LionNumbers got = training.train(levels8, MomentaRule::every);
  CHECK(got.same);
  for (const MomentaSpread& spread : got.epochs.back().momenta) {
    CAPTURE(spread.tensor);
    if (spread.mean_square == 0) continue;  // of a bias in front of a batch norm
    const bool averaged = spread.tensor.starts_with("dense") || spread.tensor == "conv1/bias";
    CHECK((spread.variance <= 1e-9 * spread.mean_square) == averaged);
  }
  CHECK(got.epochs.back().momenta.empty() == (training.world.size() == 1));
  training.world.barrier();
}

TEST_CASE("momenta: names with * stand for tensors, which are averaged with their neighbours") {
  CHECK(matches("conv1/weight", "conv1/weight"));
  CHECK_FALSE(matches("conv1", "conv1/weight"));
  CHECK(matches("*", ""));
  CHECK(matches("dense*", "dense2/bias"));
  CHECK(matches("*/bias", "dense2/bias"));
  CHECK(matches("d*2*s", "dense2/bias"));
  CHECK_FALSE(matches("d*3*s", "dense2/bias"));
  const std::vector<TensorSpan> tensors{{0, "conv1/weight", {}, 0, 30},
                                        {0, "conv1/bias", {}, 32, 4},
                                        {1, "dense1/weight", {}, 48, 9},
                                        {1, "dense1/bias", {}, 64, 3}};
  const auto spans = [&](const std::vector<std::string>& names) {
    std::vector<std::pair<Index, Index>> found;
    for (const ArenaSpan& span : averaged_spans({MomentaRule::every, 1, 1, names}, tensors, 80))
      found.emplace_back(span.first, span.count);
    return found;
  };
  using Spans = std::vector<std::pair<Index, Index>>;
  CHECK(spans({}) == Spans{{0, 80}});
  CHECK(spans({"dense*"}) == Spans{{48, 19}});
  CHECK(spans({"*/bias"}) == Spans{{32, 4}, {64, 3}});
  CHECK(spans({"*bias", "conv1*"}) == Spans{{0, 36}, {64, 3}});
}

TEST_CASE("momenta: the share of steps after which they are averaged") {
  for (const MomentaSettings& settings : {MomentaSettings{MomentaRule::every, 7, 1, {}},
                                          {MomentaRule::spaced, 1, 1, {}},
                                          {MomentaRule::spaced, 1, 16, {}},
                                          {MomentaRule::local, 1, 1, {}}}) {
    int count = 0;
    for (std::uint64_t step = 1; step <= 7000; ++step) count += averages_momenta(settings, step) ? 1 : 0;
    CHECK(averages_share(settings, 7000) == doctest::Approx(count / 7000.0).epsilon(0.1));
  }
}

TEST_CASE("worker sums: auto says what it has measured, and measures nothing that is short") {
  Comm world = Comm::world();
  TrainingConfig training;
  training.optimizer.name = OptimizerKind::lion;
  const CommunicationChoice short_one = choose_communication(training, 1000, world);
  CHECK(short_one.scheme == fp32);
  const CommunicationChoice choice = choose_communication(training, kFewestValues, world);
  CHECK((choice.scheme == fp32 || choice.scheme == levels8));
  CHECK(world.all_equal(static_cast<std::uint64_t>(choice.scheme)));
  if (world.size() == 1) return;
  CHECK(short_one.text.find("too short") != std::string::npos);
  CHECK(choice.text.find("a sum of 65536 values takes") != std::string::npos);
}

TEST_CASE("momenta are averaged at steps that depend on the step alone") {
  const auto steps = [](const MomentaSettings& settings, std::uint64_t last) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t step = 1; step <= last; ++step)
      if (averages_momenta(settings, step)) found.push_back(step);
    return found;
  };
  CHECK(steps({MomentaRule::shared, 1, 1, {}}, 50).empty());
  CHECK(steps({MomentaRule::local, 1, 1, {}}, 50).empty());
  CHECK(steps({MomentaRule::every, 20, 1, {}}, 50) == std::vector<std::uint64_t>{20, 40});
  CHECK(steps({MomentaRule::spaced, 1, 1, {}}, 70) == std::vector<std::uint64_t>{1, 2, 4, 8, 16, 32, 64});
  CHECK(steps({MomentaRule::spaced, 1, 16, {}}, 20).size() == 15);   // dense at first,
  CHECK(steps({MomentaRule::spaced, 1, 16, {}}, 1000).size() < 90);  // ever rarer
}
