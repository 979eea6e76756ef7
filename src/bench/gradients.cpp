// `mrmf bench gradients`: a device's gradients beside those of the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "src/bench/bench.hpp"

namespace mrmf {
namespace {

double mean_square(ConstSpan x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

void measure(GradientError& error) {
  const GradientError::Squares& squares = error.squares;
  error.counts = squares.expected > 0.01 * squares.of_layer;
  error.distance = std::sqrt(squares.difference / (error.counts ? squares.expected : squares.of_layer));
  error.along = error.counts ? squares.product / squares.expected : 1;
}

GradientError compare(ConstSpan got, ConstSpan expected, double of_layer) {
  double difference = 0, product = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
    product += double{got[i]} * expected[i];
  }
  const auto count = static_cast<double>(got.size());
  GradientError error;
  error.values = std::ssize(got);
  error.squares = {difference / count, product / count, mean_square(expected), of_layer};
  measure(error);
  return error;
}

/// The worse of two; a value that is not finite is the worst.
double worse(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? std::max(a, b) : std::numeric_limits<double>::infinity();
}

double off(const GradientError& error) { return worse(std::abs(error.along - 1), 0); }

/// The error over the steps of both.
void add(GradientError& error, const GradientError& more) {
  error.squares.difference += more.squares.difference;
  error.squares.product += more.squares.product;
  error.squares.expected += more.squares.expected;
  error.squares.of_layer += more.squares.of_layer;
  measure(error);
}

std::vector<float> gradients(Backend& backend, BenchSteps& steps) {
  Model& model = steps.model_state().model;
  std::vector<float> values(model.grads().size());
  backend.read(model.grads(), values);
  return values;
}

std::string figures(const std::vector<GradientError>& errors, const GradientCheck& check) {
  std::string text = "{\"gradients\": [";
  for (const GradientError& error : errors)
    text +=
        fmt::format("{}{{\"name\": \"{}\", \"distance\": {:.3g}, \"along\": {:.6g}}}", &error == &errors[0] ? "" : ", ",
                    error.name, std::min(error.distance, 1e30), std::isfinite(error.along) ? error.along : 1e30);
  return text + fmt::format("], \"distance_tolerance\": {:g}, \"along_tolerance\": {:g}, \"backend\": \"{}\"}}\n",
                            check.tolerance.distance, check.tolerance.along, check.device.description());
}

}  // namespace

std::vector<GradientError> gradient_errors(const Network& network, ConstSpan got, ConstSpan expected) {
  std::vector<GradientError> errors;
  for (const LayerEntry& entry : network.entries()) {
    auto first = static_cast<std::size_t>(entry.params.first);
    Index floats = 0;
    for (const NamedTensor& part : entry.footprint.params) floats += part.count();
    const double of_layer = mean_square(expected.subspan(first, static_cast<std::size_t>(floats)));
    for (const NamedTensor& part : entry.footprint.params) {
      const auto count = static_cast<std::size_t>(part.count());
      errors.push_back(compare(got.subspan(first, count), expected.subspan(first, count), of_layer));
      errors.back().name = entry.name + " " + part.name;
      first += count;
    }
  }
  return errors;
}

void keep_worst(std::vector<GradientError>& worst, const std::vector<GradientError>& errors) {
  if (worst.empty()) {
    worst = errors;
    return;
  }
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (is_small(worst[i].values)) {
      add(worst[i], errors[i]);
      continue;
    }
    worst[i].distance = worse(worst[i].distance, errors[i].distance);
    if (!(off(errors[i]) <= off(worst[i]))) worst[i].along = errors[i].along;
  }
}

void bench_gradients(const GradientCheck& check, const BenchSettings& settings, std::ostream& out) {
  BenchSettings still = settings;  // the parameters do not move, so each step's gradients are compared independently
  still.optimizer.name = OptimizerKind::sgd;
  still.optimizer.learning_rate = 0;
  still.in_place = false;  // there would be no gradients to compare
  BenchSettings of_device = still;
  of_device.fuse = check.fuse;
  BenchSteps device(check.device, of_device), host(check.host, still);
  std::vector<GradientError> worst;
  for (int step = 0; step < settings.steps; ++step) {
    device.step();
    host.step();
    keep_worst(worst, gradient_errors(host.model_state().model.network(), gradients(check.device, device),
                                      gradients(check.host, host)));
  }
  out << fmt::format("{}: gradients of {} beside {}\n{:<24} {:>10} {:>10}\n", settings.title(), check.device.name(),
                     check.host.name(), "", "distance", "along");
  for (const GradientError& error : worst)
    out << fmt::format("{:<24} {:>10.2e} {:>10}\n", error.name, error.distance,
                       error.counts ? fmt::format("{:.5f}", error.along) : "-");
  settings.json.write(figures(worst, check));
  for (const GradientError& error : worst) {
    const GradientTolerance allowed = check.tolerance.of(error.values);
    if (!(error.distance <= allowed.distance) || !(off(error) <= allowed.along))
      throw FaultError(
          fmt::format("the gradient of {} on {} is off by {:.2g} of its size (allowed {:.2g}) and {:.4f} of it is "
                      "there (allowed 1 +- {:.2g})",
                      error.name, check.device.name(), error.distance, allowed.distance, error.along, allowed.along));
  }
  const auto last = std::ranges::max_element(worst, {}, &GradientError::distance);
  out << fmt::format("{} gradients agree within {:.2g} of their size (allowed {:.2g}), the worst {}\n", worst.size(),
                     last->distance, check.tolerance.of(last->values).distance, last->name);
}

}  // namespace mrmf
