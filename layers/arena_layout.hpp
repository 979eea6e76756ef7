// Where activations and their gradients lie: all in one arena, laid out once. Two of them share memory when the one is
// done with before the other is written.
//
// A training step has 2 U + 1 moments for U units: unit u's forward at u, the loss at U, unit u's backward at 2 U - u.
// A tensor takes its span from the moment that writes it to the last that reads it.
//
// What a concat joins is written into its slice of the concat's output at once, where the unit that writes it can do so
// and all that read it can read it there. Backward hands out slices of dy likewise. What a halo exchange reads is
// written between its halo margins, if it offers that; its span is a tensor like any other, which all units can write
// and read.
#pragma once

#include <optional>
#include <vector>

#include "layers/layer.hpp"
#include "layers/network.hpp"

namespace mrmf {

/// What the layout needs to know of a unit.
struct UnitFacts {
  std::vector<std::size_t> reads;  ///< as in Wiring, of units
  Index floats = 0;                ///< floats of its output
  bool in_place = false, identity = false, reads_output = false, reads_input = true, dx_is_dy = false;  ///< Footprint
  AcceptedSlices accepted_slices = {};                                                                  ///< Footprint
  std::vector<Index> parts = {};                                                                        ///< Footprint
  std::optional<Index> margin = {};                                                                     ///< Footprint
};

/// Where backward puts the gradient of one input. The gradient of an output that several units read is their sum.
struct InputGradient {
  ArenaSpan dx;      ///< written by the unit; empty for the network's input, whose gradient nobody wants
  ArenaSpan before;  ///< the sum of what later units gave; empty if this is the first
  ArenaSpan sum;     ///< the sum of both; may be the memory of one of them
};

/// The memory of one unit.
struct UnitMemory {
  bool in_place = false;  ///< the output is written over an input
  ArenaSpan output;
  ArenaSpan dy;                   ///< the gradient of the output, complete when the unit's backward begins
  std::vector<InputGradient> dx;  ///< one for each input
};

struct ArenaLayout {
  std::vector<UnitMemory> units;
  Index floats = 0;    ///< floats of the arena
  Index separate = 0;  ///< if every tensor had memory of its own
};

/// The last unit's output is the network's: it stays until the step's end. Every other output must have a reader.
ArenaLayout lay_out_arena(const std::vector<UnitFacts>& units);

/// Floats that are needed from one moment to another, both included.
struct Lifetime {
  Index floats = 0;
  std::size_t begin = 0, end = 0;
  Index first = 0;  ///< its offset in the arena
};
/// Gives every block an offset on a 64-byte boundary such that no two lie on one another at any moment. Returns the
/// floats of the arena.
Index lay_out_blocks(std::vector<Lifetime>& blocks);

}  // namespace mrmf
