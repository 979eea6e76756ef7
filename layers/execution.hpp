// A network's execution: its layers in order, fused where the backend offers it, and the spans of what each
// unit keeps and writes. Needs no tensor memory, so a run's memory can be known beforehand.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/memory_layout.hpp"
#include "layers/network.hpp"
#include "layers/partition.hpp"

namespace mrmf {

class LossTerms;

/// One entry of the executed list: a layer, a fused run of layers, a halo exchange between the ranks of a grid, or at
/// the end the terms of a network of several parts.
struct Unit {
  std::size_t first = 0, last = 0;   ///< layers [first, last); a halo exchange has none, and terms have none
  bool replicated = false;           ///< every rank of a grid has all of each sample here
  Layer* layer = nullptr;            ///< the layer itself, or the fused one
  Join* join = nullptr;              ///< the layer, if it has several inputs
  LossTerms* terms = nullptr;        ///< the layer, if it is the terms of the loss
  bool shortcut = false;             ///< the second of `reads` is LayerBuffers::shortcut, which backward does not read
  bool overlaps_next = false;        ///< a halo exchange that runs in halves around the next unit, its only reader
  std::vector<std::size_t> reads{};  ///< 0: the network's input, u + 1: the output of unit u
  Shape out{};                       ///< n = max_rows
  ArenaSpan bias{};                  ///< in the parameter arena: LayerBuffers::bias
  ArenaSpan cache{};                 ///< in the cache arena
  UnitMemory memory{};               ///< spans in the activation arena, for max_rows
  bool is_halo_exchange() const { return first == last && terms == nullptr; }
};

struct Execution {
  std::vector<Unit> units;
  std::vector<std::unique_ptr<Layer>>
      owned_layers;                  ///< layers that the network itself does not hold: fused, of a block
  Shape input;                       ///< what forward takes; n = max_rows
  Box input_box, output_box;         ///< their positions in the sample, and in the network's output
  float share = 1;                   ///< share of a sample's loss that this rank's output counts
  bool counts = true;                ///< whether this rank's outputs are no copies of the first block's
  ParameterLayout params;            ///< layout of parameters, gradients and moments
  Index cache = 0, activations = 0;  ///< floats of the arenas; activations: with their gradients
  Index separate = 0;                ///< floats of activations and gradients if no two shared memory

  /// Floats in all arenas of a model in training: parameters, gradients, `moments` optimizer arenas, state, cache and
  /// activations.
  Index floats(const Network& network, int moments) const;
};

struct ModelSettings {
  NetworkSettings network;
  std::uint64_t seed = 1;  ///< seed of the initial parameters
  bool fuse = true;        ///< use the backend's fused operations where it offers them
  bool conv_norms = true;  ///< Backend::conv_norm among them; false in predictions of a GPU, whose backend has none
  Grid grid{};             ///< the ranks that share each sample
  int block = 0;           ///< this rank's number in the grid
  /// Whether convolutions compute what they can before messages have arrived. None: where messages run beside
  /// computation by themselves, as on a device.
  std::optional<bool> ahead{};
  /// Layers that can be are updated in backward (Layer::updates_in_place), of weights that no other rank has. No memory
  /// for their gradients; their optimizer is SGD.
  bool in_place = false;
  bool shared = false;  ///< parameters and gradients in memory that other ranks can map
};

Execution build_execution(Backend& backend, const Network& network, const ModelSettings& settings);

}  // namespace mrmf
