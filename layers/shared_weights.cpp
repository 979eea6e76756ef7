#include "layers/shared_weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"

namespace mrmf {
namespace {

// The layer whose weights entry i has.
const LayerEntry& source_of(const Network& network, std::size_t i) {
  const LayerSpec& spec = network.entry(i).spec;
  const std::vector<LayerEntry>& entries = network.entries();
  const auto found = std::ranges::find_if(entries, [&](const LayerEntry& e) { return e.name == spec.weights_of; });
  require(found != entries.end(), spec,
          fmt::format("weights_of names \"{}\", and no layer has that name", spec.weights_of));
  require(
      static_cast<std::size_t>(found - entries.begin()) < i, spec,
      fmt::format("weights_of names \"{}\", which comes later in the list; name an earlier layer", spec.weights_of));
  return *found;
}

void copy(Backend& backend, const WeightCopy& one, Span params) {
  const Span to = span_at(params, one.to);
  backend.fill(to, 0);
  backend.accumulate(span_at(params, one.from), to);
}

}  // namespace

void require_copies(const Network& network) {
  for (std::size_t i = 0; i < network.size(); ++i) {
    const LayerEntry& entry = network.entry(i);
    if (entry.spec.weights_of.empty()) continue;
    const LayerEntry& source = source_of(network, i);
    require(source.spec.weights_of.empty(), entry.spec,
            fmt::format("weights_of names \"{}\", which has those of \"{}\" itself; name that one", source.name,
                        source.spec.weights_of));
    require(entry.params.count > 0, entry.spec, "weights_of is for layers that have weights, and this one has none");
    require(source.layer->signature() == entry.layer->signature() && source.params.count == entry.params.count,
            entry.spec,
            fmt::format("weights_of names \"{}\", which is {}, and this is {}; they must be alike", source.name,
                        source.layer->signature(), entry.layer->signature()));
  }
}

std::vector<WeightCopy> weight_copies(const Network& network) {
  std::vector<WeightCopy> copies;
  for (std::size_t i = 0; i < network.size(); ++i)
    if (const LayerEntry& entry = network.entry(i); !entry.spec.weights_of.empty())
      copies.push_back({source_of(network, i).params, entry.params, entry.spec.every});
  return copies;
}

void fold_gradients(Backend& backend, const std::vector<WeightCopy>& copies, Span grads) {
  for (const WeightCopy& one : copies) {
    const Span own = span_at(grads, one.to);
    if (one.every == 0) backend.accumulate(own, span_at(grads, one.from));
    backend.fill(own, 0);
  }
}

void copy_weights(Backend& backend, const std::vector<WeightCopy>& copies, Span params, Copied which) {
  for (const WeightCopy& one : copies)
    if (which == Copied::all || one.every == 0) copy(backend, one, params);
}

void copy_weights_after(Backend& backend, const std::vector<WeightCopy>& copies, Span params, std::uint64_t updates) {
  for (const WeightCopy& one : copies)
    if (one.every == 0 || updates % static_cast<std::uint64_t>(one.every) == 0) copy(backend, one, params);
}

}  // namespace mrmf
