#include "tests/unit/support/peer_torch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

// formula() of golden_common.py: exact in float32.
void fill_by_formula(Span values, const Json& with) {
  const auto salt = with.at("salt").get<std::uint32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i) + salt * 0x9E3779B9U;
    h = (h ^ (h >> 16)) * 0x7FEB352DU;
    h = (h ^ (h >> 15)) * 0x846CA68BU;
    h ^= h >> 16;
    const double u = (h >> 12) * 0x1.0p-20 - 0.5;
    values[i] = static_cast<float>(with.at("offset").get<double>() + with.at("scale").get<double>() * u);
  }
}

// Deviations are relative to the tensor's largest magnitude, or to the stored scale where that magnitude is itself
// nothing but rounding (the gradient of a bias before a batch norm). PyTorch's own float32 run deviates from its
// float64 run by float32_deviation; another order of summation deviates by another draw of the same size, so a multiple
// of that is allowed, and never less than eight multiples of float32's rounding (2^-24), for tensors where PyTorch's
// draw was lucky.
void compare(const Json& expected, const std::vector<double>& actual, double multiple) {
  const double allowed = multiple * std::max(expected.at("float32_deviation").get<double>(), 8 * 0x1.0p-24);
  REQUIRE(actual.size() == expected.at("count").get<std::size_t>());
  const auto stride = expected.at("stride").get<std::size_t>();
  double worst = 0, squares = 0;
  std::size_t next = 0;
  for (const Json& value : expected.at("values")) {
    const double off = std::abs(actual[next] - value.get<double>());
    worst = std::isfinite(off) ? std::max(worst, off) : std::numeric_limits<double>::infinity();
    next += stride;
  }
  for (const double a : actual) squares += a * a;
  const auto largest = expected.at("largest").get<double>(), norm = expected.at("norm").get<double>();
  const double scale = expected.value("scale", largest);
  CHECK(worst / scale <= allowed);
  CHECK(std::abs(std::sqrt(squares) / norm - 1) <= allowed * scale / largest);
}

OptimizerSettings optimizer_settings(const Json& with) {
  OptimizerSettings settings;
  const std::vector<std::string> words = words_of<OptimizerKind>();
  const auto word = std::ranges::find(words, with.at("name").get<std::string>());
  REQUIRE(word != words.end());
  settings.name = static_cast<OptimizerKind>(word - words.begin());
  settings.learning_rate = with.at("learning_rate");
  settings.momentum = with.value("momentum", settings.momentum);
  settings.epsilon = with.value("epsilon", settings.epsilon);
  return settings;
}

// The same steps as record() of golden_common.py.
class TorchComparison {
 public:
  TorchComparison(Backend& backend, const PeerCase& peer, bool fuse)
      : with_(peer.with),
        backend_(backend),
        rows_(peer.with.at("rows").get<Index>()),
        sample_(peer.sample.with_rows(rows_)),
        multiple_(peer.multiple),
        settings_(optimizer_settings(peer.with.at("optimizer"))),
        model_(backend, {{sample_, rows_, peer.layers, ""}, 1, fuse}),
        x_(static_cast<std::size_t>(sample_.count())),
        target_(static_cast<std::size_t>(model_.network().output().count())),
        optimizer_(backend, settings_, static_cast<Index>(model_.params().size())) {
    fill_by_formula(x_, peer.golden.at("input"));
    if (with_.value("target", "") == "input")
      target_ = x_;
    else
      fill_by_formula(target_, peer.golden.at("target"));
    visit_parameters(model_.params(), [&](const Json& start, Span part) { fill_by_formula(part, start); });
  }

  void run() {
    const auto steps = with_.at("steps").get<int>();
    std::vector<double> losses;
    for (int number = 0; number < std::max(steps, 1); ++number) {
      losses.push_back(train(static_cast<std::uint64_t>(number)));
      if (number == 0) {
        check_parameters("gradient ", model_.grads());
        check_state("");
      }
      if (steps > 0) update(optimizer_, settings_.learning_rate, model_);
    }
    check("losses", losses);
    if (steps == 0) return;
    check_parameters("trained ", model_.params());
    check_state("trained ");
  }

 private:
  double train(std::uint64_t number) {
    StepContext step;
    step.updates_done = number;
    step.loss_weight = 1.0F / static_cast<float>(rows_);
    const std::vector<std::int64_t> ids(static_cast<std::size_t>(rows_), 0);
    step.ids = ids;
    const ConstTensor y = model_.forward(step, {sample_, x_});
    if (number == 0) check("output", {y.data.begin(), y.data.end()});
    const ConstTensor target(model_.network().output(), target_);
    const double sum = loss_of(backend_, LossKind::mse, y, target, step.loss_weight, model_.output_gradient(rows_));
    // Stale gradients must not help.
    visit_parameters(model_.grads(), [&](const Json&, Span part) { backend_.fill(part, std::nanf("")); });
    model_.backward(step, {sample_, x_});
    return sum / static_cast<double>(rows_);
  }

  // Calls visit(entry of golden.json, its part of the arena) for every parameter tensor in arena order.
  template <class Visit>
  void visit_parameters(Span arena, Visit visit) {
    auto start = with_.at("parameters").begin();
    for (const LayerEntry& entry : model_.network().entries()) {
      Index first = entry.params.first;
      for (const NamedTensor& part : entry.footprint.params) {
        REQUIRE(start->at("name") == entry.name + " " + part.name);
        REQUIRE(start->at("count") == part.count());
        visit(*start++, arena.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(part.count())));
        first += part.count();
      }
    }
    REQUIRE(start == with_.at("parameters").end());
  }

  void check_parameters(const std::string& prefix, Span arena) {
    visit_parameters(arena, [&](const Json& start, Span part) {
      check(prefix + start.at("name").get<std::string>(), {part.begin(), part.end()});
    });
  }

  // Running statistics, and the evaluation-mode output they lead to.
  void check_state(const std::string& prefix) {
    for (const LayerEntry& entry : model_.network().entries()) {
      if (entry.kind != LayerKind::batch_norm) continue;
      const Span state = model_.state().subspan(static_cast<std::size_t>(entry.state.first),
                                                static_cast<std::size_t>(entry.state.count));
      const auto half = static_cast<std::ptrdiff_t>(state.size() / 2);
      check(prefix + entry.name + " running mean", {state.begin(), state.begin() + half});
      check(prefix + entry.name + " running variance", {state.begin() + half, state.end()});
    }
    StepContext step;
    step.training = false;
    const ConstTensor y = model_.forward(step, {sample_, x_});
    check(prefix + "evaluation output", {y.data.begin(), y.data.end()});
  }

  void check(const std::string& key, const std::vector<double>& actual) {
    INFO(key);
    compare(with_.at("results").at(key), actual, multiple_);
  }

  const Json& with_;
  Backend& backend_;
  Index rows_;
  Shape sample_;
  double multiple_;
  OptimizerSettings settings_;
  Model model_;
  std::vector<float> x_, target_;
  Optimizer optimizer_;
};

}  // namespace

Json read_golden(const std::string& name) {
  return Json::parse(std::ifstream(MRMF_SOURCE_FOLDER "/tests/peers/torch/" + name));
}

void compare_with_torch(Backend& backend, const PeerCase& peer, bool fuse) {
  TorchComparison(backend, peer, fuse).run();
}

}  // namespace mrmf::test
