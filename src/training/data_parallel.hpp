// What keeps the models of a team's ranks one model: the sums of gradients and of batch norm's statistics that training
// takes over the team, and checks that every rank holds the same.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// The backend's own where it has one (NCCL), else MPI on the host's memory; null for a team of one. Collective; keeps
/// a reference to `team`.
std::unique_ptr<AllReduce> make_all_reduce(Backend& backend, Comm& team);

/// What of a model is compared: with local batch norm each rank has its own running statistics inside of an epoch.
enum class Compared { parameters, parameters_and_state };

/// FaultError, on every rank, when the model has not the same bits on all of them. `place` says where in the run that
/// is: "at the start of stage 1 (...)". The message names the ranks of the world that differ from most, and their
/// nodes. A hash of each and 8 bytes of messages where all agree. Collective.
void require_same_model(Backend& backend, Model& model, Compared what, Comm& team, const std::string& place);

/// With local batch norm every rank has its own running statistics; the model that is validated, fused and saved has
/// their mean. Collective.
void average_state(Backend& backend, Model& model, Comm& team);

}  // namespace mrmf
