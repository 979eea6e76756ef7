#include "src/inspect.hpp"

#include <fmt/format.h>

#include <sstream>

#include "layers/execution.hpp"
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

std::string layer_line(const Entry& entry, bool own_memory) {
  return fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14.3f} {:>14}\n", entry.name, entry.top ? "top" : "bottom",
                     to_string(entry.output()), grouped(entry.params.count), entry.layer->flop() / kMega,
                     own_memory ? memory_text(entry.output().per_sample()) : "-");
}

std::string network_text(Backend& backend, const NetworkSettings& settings, const Extent& resolution, int moments) {
  const Network network(backend, settings);
  const Execution execution = plan_execution(backend, network, {settings, 0, true});
  std::string text = fmt::format("resolution {}: sample {}, batch {} per rank\n", resolution_text(resolution),
                                 to_string(network.input()), settings.max_rows);
  text += fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14} {:>14}\n", "layer", "group", "output", "parameters",
                      "forward MFLOP", "activations");
  for (const Unit& unit : execution.units)
    for (std::size_t i = unit.first; i < unit.last; ++i)  // of fused layers, only the last one's output is stored
      text += layer_line(network.entry(i), i + 1 == unit.last && !unit.in_place);
  Index state = 0;
  for (const Entry& entry : network.entries()) state += entry.state.count;
  text += fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14.2f} {:>14}\n", "all", "", "", grouped(network.trainable()),
                      network.flop() / kMega, memory_text(execution.activations / settings.max_rows));
  text +=
      fmt::format("  flat features {}, running statistics {}; memory of a rank in training {} and its data\n\n",
                  grouped(network.flat_features()), grouped(state), memory_text(execution.floats(network, moments)));
  return text;
}

}  // namespace

// "1600x3" or "128x128x128x4": positions per axis, then channels.
Shape parse_sample(const std::string& text) {
  std::vector<Index> sizes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) {
    const bool number = !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
    if (!number || std::stoll(word) < 1)
      throw ConfigError("--sample " + text + ": expected sizes like 1600x3 (positions per axis, then channels)");
    sizes.push_back(std::stoll(word));
  }
  if (sizes.empty() || sizes.size() > 4)
    throw ConfigError("--sample " + text + ": expected one to three axes and the channels, like 1600x3");
  Shape shape;
  shape.channels = sizes.back();
  shape.axes = static_cast<int>(sizes.size()) - 1;
  for (std::size_t a = 0; a + 1 < sizes.size(); ++a) shape.spatial[3 - sizes.size() + 1 + a] = sizes[a];
  return shape;
}

std::string inspect_text(const Config& config, const Shape& sample) {
  const auto backend = make_reference_backend();  // shapes only: no memory, no library plans
  const int moments = config.training.optimizer.name == "sgd" ? 1 : 2;
  const Plan plan = make_plan(config);
  std::string text;
  for (const Extent& resolution : plan.resolutions())
    text += network_text(*backend, network_settings(config, plan, sample, resolution), resolution, moments);
  return text + "activations are per sample; - : the layer writes over its input, or is fused with the next\n";
}

}  // namespace mrmf
