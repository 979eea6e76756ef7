#include "src/inspect.hpp"

#include <fmt/format.h>

#include "layers/network.hpp"
#include "src/data.hpp"
#include "src/plan.hpp"

namespace mrmf {
namespace {

constexpr double kMega = 1e6;

// Thousands separators, for parameter counts.
std::string grouped(Index value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<Index>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string memory_text(Index floats) {
  const double bytes = 4.0 * static_cast<double>(floats);
  return bytes < kMega ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.2f} MB", bytes / kMega);
}

std::string network_text(const Network& network, const Extent& resolution, Index batch) {
  std::string text = fmt::format("resolution {}: sample {}, batch {} per rank\n", resolution_text(resolution, 0),
                                 to_string(network.input()), batch);
  text += fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14} {:>14}\n", "layer", "group", "output", "parameters",
                      "forward MFLOP", "activations");
  Index activations = 0, state = 0;
  for (const Entry& entry : network.entries()) {
    const Index floats = entry.footprint.in_place ? 0 : entry.output().per_sample();
    activations += floats;
    state += entry.state.count;
    text += fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14.3f} {:>14}\n", entry.name, entry.top ? "top" : "bottom",
                        to_string(entry.output()), grouped(entry.params.count), entry.layer->flop() / kMega,
                        memory_text(floats));
  }
  text += fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14.2f} {:>14}\n", "all", "", "", grouped(network.trainable()),
                      network.flop() / kMega, memory_text(activations));
  text += fmt::format("  flat features {}, state (running statistics) {}; per sample, in one batch {}\n\n",
                      grouped(network.flat_features()), grouped(state), memory_text(activations * batch));
  return text;
}

}  // namespace

std::string inspect_text(const Config& config, const Shape& sample) {
  const auto backend = make_reference_backend();  // shapes only: no memory, no library plans
  std::string text;
  const Plan plan = make_plan(config);
  for (const Extent& resolution : plan.resolutions()) {
    NetworkSettings settings{coarse_shape(sample, resolution), 1, config.model.layers, config.model.cut};
    for (const TrainStep& step : plan.training())
      if (step.resolution == resolution) settings.max_rows = std::max<Index>(settings.max_rows, step.batch);
    text += network_text(Network(*backend, settings), resolution, settings.max_rows);
  }
  return text;
}

}  // namespace mrmf
