// What a run costs before it runs, worked out by hand. Against what runs count: tests/cli/test_plan_cost.py.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "src/run/run_cost.hpp"

using namespace mrmf;

namespace {

constexpr Shape kSeries{.n = 0, .spatial = {1, 1, 64}, .channels = 2, .axes = 1};

RunCost cost(const std::string& training, const std::optional<RunSize>& size, const std::string& layer = "batch_norm",
             const std::vector<std::string>& more = {}) {
  Config config = parse_config(
      "[data]\nfiles = [\"a.h5\"]\ntrain = { samples = \"x\", labels = \"y\" }\nvalidation = { samples = \"x\", labels "
      "= \"y\" }\n[model]\nlayers = [{ type = \"conv\", filters = 4, kernel = 3 }, { type = \"" +
          layer +
          "\" }, { type = \"flatten\" }, { type = \"dense\", units = 2 }]\n[training]\nepochs = 5\nbatch = 10\n" +
          training + "\n",
      "c.toml", more);
  resolve_axes(config.model.layers, 1);
  return run_cost(config, make_plan(config), kSeries, size);
}

}  // namespace

TEST_CASE("run cost: statistics are forwards of some batches, of three passes and a validation each epoch") {
  const RunSize size{.training = 100, .validation = 20};
  CHECK(cost("", size).epochs == 5);
  CHECK(cost("precise_batch_norm = 4", size).statistics == doctest::Approx(40.0 / 320));
  CHECK(cost("precise_batch_norm = 4", size).epochs == doctest::Approx(5 + 40.0 / 320));
  CHECK(cost("precise_batch_norm = 400", size).statistics == doctest::Approx(100.0 / 320));
  CHECK(cost("precise_batch_norm = 4", size, "relu").statistics == 0);
  CHECK(cost("precise_batch_norm = 4\nearly_stopping.patience = 9", size).statistics ==
        doctest::Approx(5 * 40.0 / 320));
}

TEST_CASE("run cost: a batch is of a rank, or of the ranks that share a sample") {
  const RunSize size{.training = 100, .validation = 20, .ranks = 2};
  CHECK(cost("precise_batch_norm = 4", size).statistics == doctest::Approx(80.0 / 320));
  CHECK(cost("precise_batch_norm = 4", size, "batch_norm", {"run.grid=[2]"}).statistics == doctest::Approx(40.0 / 320));
}

TEST_CASE("run cost: a probe is two validations, two recalibrations of eight batches at most, and its training") {
  const RunSize size{.training = 300, .validation = 20};
  const auto probes = [&](int epochs, int precise, double probe) {
    return cost(fmt::format("precise_batch_norm = {}", precise), size, "batch_norm",
                {"method.name=mrmf", "method.resolutions=[[2],[1]]", "method.top=interpolated", "method.switch=slope",
                 "method.probe_epochs=2", fmt::format("method.probe={}", probe),
                 fmt::format("method.stop.coarse.epochs={}", epochs)})
        .probes;
  };
  // Thirty steps: a probe of a fifth trains six. Epochs 2 and 4 of five are looked at, and 2 alone of four.
  CHECK(probes(5, 3, 0.2) == doctest::Approx(2 * (2 * (20 + 30) + 3 * 60) / 920.0));
  CHECK(probes(4, 3, 0.2) == doctest::Approx((2 * (20 + 30) + 3 * 60) / 920.0));
  CHECK(probes(4, 20, 0.2) == doctest::Approx((2 * (20 + 80) + 3 * 60) / 920.0));
  CHECK(probes(4, 3, 0.001) == doctest::Approx((2 * (20 + 30) + 3 * 20) / 920.0));
}

TEST_CASE("run cost: without the numbers of samples it says what it leaves out") {
  CHECK(cost("", {}).complete());
  CHECK(cost("precise_batch_norm = 4", {}, "relu").complete());
  const RunCost unknown = cost("precise_batch_norm = 4", {});
  CHECK(unknown.epochs == 5);
  CHECK(unknown.without_statistics);
  CHECK_FALSE(unknown.without_probes);
}
