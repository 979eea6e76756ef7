// The named parts of a model's arenas: what files hold, one array per part of a layer.
#pragma once

#include <string>
#include <vector>

#include "layers/network.hpp"

namespace mrmf {

/// One part of a layer and its place in the arena of its kind.
struct PartPlace {
  std::string name;          ///< "conv1/weight"
  std::vector<Index> shape;  ///< channels-last
  std::size_t first = 0, count = 0;

  template <typename Floats>
  Floats in(Floats arena) const {
    return arena.subspan(first, count);
  }
};

/// In arena order. Moments of an optimizer have the places of the parameters.
std::vector<PartPlace> parameter_places(const Network& network);
std::vector<PartPlace> state_places(const Network& network);

}  // namespace mrmf
