#include "src/export/exported_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/check.hpp"

namespace mrmf {

ExportedModel exported(Backend& backend, const Model& model) {
  ExportedModel made{.network = model.network(), .params = {}, .state = {}, .samples = {}, .labels = {}};
  made.params.resize(model.params().size());
  made.state.resize(model.state().size());
  backend.read(model.params(), made.params);
  backend.read(model.state(), made.state);
  return made;
}

std::vector<LayerTensor> tensors_of(const ExportedModel& model, const Entry& entry) {
  std::vector<LayerTensor> parts;
  const auto add = [&](const std::vector<NamedTensor>& all, const ArenaSpan& place, const std::vector<float>& arena) {
    Index first = place.first;
    for (const NamedTensor& part : all) {
      parts.push_back(
          {part.name, part.shape,
           ConstSpan(arena).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(part.count()))});
      first += part.count();
    }
  };
  add(entry.footprint.params, entry.params, model.params);
  add(entry.footprint.state, entry.state, model.state);
  return parts;
}

void require_sayable(const Network& network) {
  using enum LayerKind;
  constexpr std::array of_positions{conv, conv_transpose, max_pool, average_pool, global_average_pool};
  for (const Entry& entry : network.entries())
    if (entry.input.axes == 0 && std::ranges::find(of_positions, entry.kind) != of_positions.end())
      throw ConfigError(fmt::format("{}: its input {} has no positions, and other programs have no {} of such; {}",
                                    entry.name, to_string(entry.input), to_string(entry.kind),
                                    entry.kind == conv || entry.kind == conv_transpose ? "use dense" : "leave it out"));
}

}  // namespace mrmf
