// Layers that have the weights of another (LayerSpec::weights_of): the same decoder behind two encoders, a
// discriminator that sees what is real and what is not, and frozen copies of it.
//
// Each has a span of its own among the parameters, where a copy lies. So every layer computes as if it were alone.
// What a backward leaves there of shared weights is added to the gradients of the layer that has them; of frozen ones
// it is dropped. After an update the copies are taken anew: shared weights always, frozen ones every so many updates.
// Running statistics (of batch norms) are each layer's own.
#pragma once

#include <vector>

#include "layers/network.hpp"

namespace mrmf {

struct WeightCopy {
  ArenaSpan from, to;  ///< in the arenas of parameters and of gradients
  int every = 0;       ///< 0: shared
};

/// ConfigError, naming the layer, where weights_of names no layer, a later one, one that has another's weights itself,
/// or one of other parameters.
void require_copies(const Network& network);

/// In the order of the list.
std::vector<WeightCopy> weight_copies(const Network& network);

/// Adds gradients of shared weights where the weights are, and clears those of all copies.
void fold_gradients(Backend& backend, const std::vector<WeightCopy>& copies, Span grads);

/// Which copies are taken anew.
enum class Copied { shared, all };
void copy_weights(Backend& backend, const std::vector<WeightCopy>& copies, Span params, Copied which);
/// After the update with this number, counted from 1.
void copy_weights_after(Backend& backend, const std::vector<WeightCopy>& copies, Span params, std::uint64_t updates);

}  // namespace mrmf
