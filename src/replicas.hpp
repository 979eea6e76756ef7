// Every rank of a team holds the same model: looking whether it does, and making it so.
#pragma once

#include "layers/model.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// True, on every rank, when parameters and state have the same bits on all of them. Collective.
bool same_parameters(Backend& backend, Model& model, Comm& team);

/// With local batch norm every rank has its own running statistics; the model that is validated, fused and saved has
/// their mean. Collective.
void average_state(Backend& backend, Model& model, Comm& team);

}  // namespace mrmf
