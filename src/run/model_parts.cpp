#include "src/run/model_parts.hpp"

namespace mrmf {
namespace {

void add(std::vector<PartPlace>& places, const std::string& layer, const std::vector<Part>& parts, Index first) {
  for (const Part& part : parts) {
    places.push_back(
        {layer + "/" + part.name, part.shape, static_cast<std::size_t>(first), static_cast<std::size_t>(part.count())});
    first += part.count();
  }
}

}  // namespace

std::vector<PartPlace> parameter_places(const Network& network) {
  std::vector<PartPlace> places;
  for (const Entry& entry : network.entries()) add(places, entry.name, entry.footprint.params, entry.params.first);
  return places;
}

std::vector<PartPlace> state_places(const Network& network) {
  std::vector<PartPlace> places;
  for (const Entry& entry : network.entries()) add(places, entry.name, entry.footprint.state, entry.state.first);
  return places;
}

}  // namespace mrmf
