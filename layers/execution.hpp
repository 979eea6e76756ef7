// Plan of a network's execution: its layers in order, fused where the backend offers it, in place where allowed, and
// the places of each unit's output and cache. Needs no tensor memory, so a run's memory can be known beforehand.
#pragma once

#include <memory>
#include <vector>

#include "layers/network.hpp"

namespace mrmf {

/// One entry of the executed list: a layer, or a fused run of layers.
struct Unit {
  std::size_t first = 0, last = 0;  ///< layers [first, last)
  Layer* run = nullptr;             ///< the layer itself, or the fused one
  bool in_place = false;            ///< the output uses the input's memory
  Place cache;                      ///< in the cache arena
  Place output;                     ///< in the activation arena, for max_rows
  Shape out;                        ///< n = max_rows
};

struct Execution {
  std::vector<Unit> units;
  std::vector<std::unique_ptr<Layer>> fused;  ///< fused layers, which the network itself does not hold
  Index cache = 0, activations = 0;           ///< floats of the arenas
  Index widest = 0;                           ///< floats of the largest output, the size of both gradient arenas

  /// Floats in all arenas of a model in training: parameters, gradients, `moments` optimizer arenas, state, cache,
  /// activations and their gradients.
  Index floats(const Network& network, int moments) const;
};

struct ModelSettings {
  NetworkSettings network;
  std::uint64_t seed = 1;  ///< of the initial parameters
  bool fuse = true;        ///< use the backend's fused operations where it offers them
};

Execution plan_execution(Backend& backend, const Network& network, const ModelSettings& settings);

}  // namespace mrmf
