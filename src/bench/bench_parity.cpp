#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "src/bench/bench.hpp"
#include "src/bench/bench_tools.hpp"

namespace mrmf {
namespace {

struct Outcome {
  std::vector<float> losses;
  std::uint64_t parameters = 0;  // a hash
};

Outcome run(Backend& backend, const BenchSettings& settings) {
  BenchSteps steps(backend, settings);
  for (int i = 0; i < settings.steps; ++i) {
    steps.load();
    steps.step();
  }
  Outcome outcome{steps.losses(), 0};
  Model& model = steps.learner().model;
  std::vector<float> params(model.params().size());
  backend.read(model.params(), params);
  outcome.parameters = XXH3_64bits(params.data(), params.size() * sizeof(float));
  return outcome;
}

double worst_difference(const std::vector<float>& device, const std::vector<float>& host) {
  double worst = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    const double difference = std::abs(double{device[i]} - host[i]) / std::abs(double{host[i]});
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

std::string exact(const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(std::isfinite(value) ? fmt::format("{:.9g}", value) : "null");
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

void bench_parity(const Parity& parity, const BenchSettings& settings, std::ostream& out) {
  const Outcome device = run(parity.device, settings), host = run(parity.host, settings);
  out << fmt::format("{}, sample {}, batch {}, SGD: loss per sample\n{:>5} {:>14} {:>14}\n", settings.preset,
                     to_string(settings.sample), settings.batch, "step", parity.device.name(), parity.host.name());
  for (std::size_t i = 0; i < host.losses.size(); ++i)
    out << fmt::format("{:>5} {:>14.7f} {:>14.7f}\n", i + 1, device.losses[i], host.losses[i]);
  const double worst = worst_difference(device.losses, host.losses);
  settings.json.write(
      fmt::format("{{\"losses\": {{\"device\": {}, \"host\": {}}}, \"parameters_hash\": \"{:016x}\", "
                  "\"worst\": {:.3g}, \"tolerance\": {:g}, \"backend\": \"{}\"}}\n",
                  exact(device.losses), exact(host.losses), device.parameters, std::min(worst, 1e30), parity.tolerance,
                  parity.device.description()));
  if (!(worst <= parity.tolerance))
    throw FaultError(fmt::format("{} and {} part by {:.2g} of the loss within {} steps, more than {:g}",
                                 parity.device.name(), parity.host.name(), worst, settings.steps, parity.tolerance));
  out << fmt::format("{} steps agree within {:.2g} of the loss (allowed {:g}); parameters {:016x}\n", settings.steps,
                     worst, parity.tolerance, device.parameters);
}

}  // namespace mrmf
