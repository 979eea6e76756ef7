#include "layers/serving.hpp"

#include <algorithm>

namespace mrmf {

NetworkSettings serving_network(const Network& whole, NetworkSettings settings) {
  const std::vector<bool> serves = whole.serving();
  settings.layers.clear();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!serves[i]) continue;
    LayerSpec spec = whole.entry(i).spec;
    spec.weights_of.clear();
    spec.every = 0;
    spec.from.clear();
    if (!is_source(spec.kind))
      for (const std::size_t number : whole.wiring()[i])
        spec.from.push_back(number == 0 ? std::string(kInput) : whole.entry(number - 1).name);
    settings.layers.push_back(std::move(spec));
  }
  settings.parts = {};
  settings.bottom = {};
  return settings;
}

void copy_layers(Backend& backend, const Model& from, Model& to) {
  const auto copy = [&](ConstSpan values, Span there) {
    std::vector<float> host(values.size());
    backend.read(values, host);
    backend.write(host, there);
  };
  const auto part = [](ConstSpan arena, const ArenaSpan& span) {
    return arena.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count));
  };
  for (const LayerEntry& entry : to.network().entries()) {
    const std::vector<LayerEntry>& all = from.network().entries();
    const auto source = std::ranges::find_if(all, [&](const LayerEntry& one) { return one.name == entry.name; });
    MRMF_CHECK(source != all.end(), "a layer that the other model has not");
    copy(part(from.params(), source->params), span_at(to.params(), entry.params));
    copy(part(from.state(), source->state), span_at(to.state(), entry.state));
  }
}

}  // namespace mrmf
