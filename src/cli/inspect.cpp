#include "src/cli/inspect.hpp"

#include <fmt/format.h>

#include <sstream>

#include "layers/execution.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr double kMega = 1e6;

// Thousands separators, for parameter counts.
std::string grouped(Index value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<Index>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string byte_text(Index count) {
  const auto bytes = static_cast<double>(count);
  return bytes < kMega ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.2f} MB", bytes / kMega);
}
std::string memory_text(Index floats) { return byte_text(4 * floats); }

std::string layer_line(const Entry& entry, bool own_memory) {
  return fmt::format("  {:<14} {:<7} {:>16} {:>12} {:>14.3f} {:>14}\n", entry.name, entry.top ? "top" : "bottom",
                     to_string(entry.output()), grouped(entry.params.count), entry.layer->flop() / kMega,
                     own_memory ? memory_text(entry.output().per_sample()) : "-");
}

std::string network_text(Backend& backend, const NetworkSettings& settings, const Extent& resolution,
                         const RunMemory& memory) {
  const Network network(backend, settings);
  const Execution execution = plan_execution(backend, network, {settings, 0, true});
  std::string text =
      fmt::format("resolution {}: sample {}, batch {} per rank\n", resolution_text(resolution, network.input().axes),
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
  text += fmt::format("  flat features {}, running statistics {}; memory in training: model {}, workspace {}\n\n",
                      grouped(network.flat_features()), grouped(state), byte_text(memory.models),
                      byte_text(memory.workspace));
  return text;
}

// Of a rank, where a run computes shard by shard; 0: it computes whole batches.
int own_lanes(const Config& config, int ranks) {
  return config.run.deterministic ? (config.data.shards + ranks - 1) / ranks : 0;
}

std::string peak_text(const RunMemory& m, bool with_data) {
  return fmt::format(
      "memory of a rank at its peak: {}{} (program {}, models {}, workspace {}, batches {}, saving {}{})\n",
      byte_text(m.all()), with_data ? "" : " and its data", byte_text(m.program), byte_text(m.models),
      byte_text(m.workspace), byte_text(m.batches), byte_text(m.saving),
      with_data ? ", data " + byte_text(m.data) : "");
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

std::string inspect_text(Backend& backend, const Config& config, const Shape& sample,
                         const std::optional<HeldData>& held, int ranks) {
  MemoryCount memory(backend, config.training.optimizer, own_lanes(config, ranks));
  const Plan plan = make_plan(config);
  std::string text;
  for (const Extent& resolution : plan.resolutions()) {
    const NetworkSettings settings = network_settings(config, plan, sample, resolution);
    const RunMemory stage = memory.add(settings);
    text += network_text(backend, settings, resolution, stage);
  }
  return text + "activations are per sample; - : the layer writes over its input, or is fused with the next\n" +
         peak_text(memory.peak(plan, held), held.has_value());
}

}  // namespace mrmf
