// What of a network of several parts a trained model needs: the layers that lead to its output.
#pragma once

#include "layers/model.hpp"

namespace mrmf {

/// The settings of a network of one part: `whole` without the layers that serve training alone. Layers that have
/// another's weights have them as their own.
NetworkSettings serving_network(const Network& whole, NetworkSettings settings);

/// Parameters and statistics of the layers of `to` become those of the layers of the same names.
void copy_layers(Backend& backend, const Model& from, Model& to);

}  // namespace mrmf
