// Scores over the ranks of a team are those of all samples on one.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/metric.hpp"
#include "src/training/metrics.hpp"

using namespace mrmf;

TEST_CASE("scores: any number of ranks has those of one") {
  Comm world = Comm::world();
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned most) { return static_cast<float>(random() % most); };
    const Task task = seed % 2 == 0 ? Task::classes : Task::binary;
    const Index classes = 2 + seed % 3, wide = task == Task::classes ? 1 : classes;
    // Every fourth case has few rows: some ranks have none. Every fifth has one class.
    const int rows = seed % 4 == 0 ? 2 : 200;
    const ScoreSettings settings{.task = task,
                                 .output = {rows, {1, 1, 1}, classes, 0},
                                 .target_channels = wide,
                                 .log_loss = true,
                                 .ranked = true};
    MetricSums all(settings), own(settings);
    for (int row = 0; row < rows; ++row) {
      std::vector<float> y, target;
      for (Index c = 0; c < classes; ++c) y.push_back(below(7) / 2 - 1);
      for (Index c = 0; c < wide; ++c)
        target.push_back(below(8) == 0   ? -1
                         : seed % 5 == 0 ? 1
                                         : below(task == Task::classes ? static_cast<unsigned>(classes) : 2));
      all.add(y, target);
      if (row % world.size() == world.rank()) own.add(y, target);
    }
    own.sum(world);
    for (std::size_t i = 0; i < metric_kind_words().size(); ++i)
      for (int of = -1; of < static_cast<int>(classes); ++of) {
        const Metric metric{static_cast<MetricKind>(i), of};
        const double expected = all.value(metric), found = own.value(metric);
        CAPTURE(to_string(metric));
        if (std::isnan(expected)) CHECK(std::isnan(found));
        if (std::isnan(expected)) continue;
        // Whole numbers are counted, but for the logarithmic loss.
        if (metric.kind == MetricKind::log_loss) CHECK(found == doctest::Approx(expected).epsilon(1e-12));
        if (metric.kind != MetricKind::log_loss) CHECK(found == expected);
      }
  }
}
