// Whole weights of the layers whose weights are cut over the ranks of a grid (layers/parameter_layout.hpp): what a
// checkpoint and a model's file hold, and what a fusion computes with.
#pragma once

#include <vector>

#include "kernels/backend.hpp"
#include "layers/parameter_layout.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// Puts the ranks' weights together, on every rank of the group. Collective over it. In the host's memory.
void gather(const RowParallelWeights& cut, ConstSpan own, Comm& sample_group, Span all);

/// The arenas of a model, and the ranks of a sample: null where no weights are cut.
struct WholeWeights {
  Backend& backend;
  const Network& network;
  const ParameterLayout& layout;
  Comm* sample_group = nullptr;

  /// The whole of an arena of parameters, gradients or moments, in the host's memory and the network's own places.
  /// Collective over the group.
  std::vector<float> read(ConstSpan arena) const;
  /// Gives the arena its own of such values.
  void write(ConstSpan all, Span arena) const;
};

}  // namespace mrmf
