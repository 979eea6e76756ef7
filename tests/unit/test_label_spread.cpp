// The warning of losses that are far above the labels' variance: when it fires, and when it must not.
#include <doctest/doctest.h>

#include <limits>

#include "src/training/training_loop.hpp"

using namespace mrmf;

namespace {

std::string spread_warned(double training, double validation, double variance,
                          const LossSettings& loss = LossSettings::single(LossKind::mse)) {
  EpochRecord epoch;
  epoch.train_loss = training;
  epoch.validation_loss = validation;
  return spread_warning(loss, epoch, "stage 1 (baseline, resolution [1])", variance);
}

}  // namespace

TEST_CASE("spread: losses a thousand times the labels' variance are told, with what to do") {
  const std::string text = spread_warned(9.9e11, 9.8e11, 2.5);
  CHECK(text.find(
            "after epoch 1 of stage 1 (baseline, resolution [1]) the losses (training 9.9e+11, validation 9.8e+11)") ==
        0);
  CHECK(text.find("variance of the training labels (2.5)") != std::string::npos);
  CHECK(text.find("data.normalise.labels = \"mean_std\"") != std::string::npos);
  CHECK_FALSE(spread_warned(1001, 1001, 1).empty());
  CHECK(spread_warned(999, 1001, 1).empty());
}

TEST_CASE("spread: a run that recovers, labels that do not vary, and other losses are quiet") {
  CHECK(spread_warned(1e9, 1.0, 1).empty());  // high at first, sound by the end of the epoch
  CHECK(spread_warned(1.0, 1e9, 1).empty());  // other validation data: not a matter of scale alone
  CHECK(spread_warned(1e9, 1e9, 0).empty());
  CHECK(spread_warned(1e9, 1e9, std::numeric_limits<double>::quiet_NaN()).empty());
  CHECK(spread_warned(1e9, 1e9, 1, LossSettings::single(LossKind::mae)).empty());
  LossSettings sum = LossSettings::single(LossKind::mse);
  sum.weights[static_cast<std::size_t>(LossKind::mae)] = 1;
  CHECK(spread_warned(1e9, 1e9, 1, sum).empty());
  LossSettings heavy = LossSettings::single(LossKind::mse);
  heavy.weights[static_cast<std::size_t>(LossKind::mse)] = 10;
  CHECK(spread_warned(5000, 5000, 1, heavy).empty());
  CHECK_FALSE(spread_warned(11000, 11000, 1, heavy).empty());
}

TEST_CASE("spread: large labels are looked at for fewer samples") {
  CHECK(spread_samples(4) == 4096);
  CHECK(spread_samples(1000) == 1000);
  CHECK(spread_samples(Index{1} << 21) == 1);
  CHECK(spread_samples(0) == 4096);
}
