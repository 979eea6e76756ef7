// Data parallelism over the ranks of a team: the sums of gradients and of batch norm's statistics that keep their
// models equal, and checks that every rank holds the same.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// The backend's own sums if it has them (NCCL), else MPI's in host memory; null for a team of one. Collective; keeps a
/// reference to `team`.
std::unique_ptr<AllReduce> make_all_reduce(Backend& backend, Comm& team);

/// Messages between the ranks of a group: the backend's own if it has them (NCCL), else MPI's in host memory.
/// Collective; keeps a reference to `sample_group`.
std::unique_ptr<Messages> make_messages(Backend& backend, Comm& sample_group);

/// Whether each rank updates the piece of the parameters whose gradients it adds (ShardedUpdate): the one rule,
/// for training, for the memory of models, and for plans. `by_pieces`: the ranks that train the model add its gradients
/// by reduce-scatter, as AllReduce::updates() says and mpi::adds_by_reduce_scatter() foresees; shard replicas do not.
/// Where gradients are clipped, all must be summed before the first parameter is updated. Sums that travel as codes
/// come back as codes.
bool updates_in_pieces(const TrainingConfig& training, const SumSettings& sums, bool by_pieces);

/// What is compared. With local batch norm, each rank has its own running statistics within an epoch.
enum class Compared { parameters, parameters_and_state };

/// Who compares: weights that are cut are the same on the ranks with the same block of a grid alone, all else on the
/// whole team. Without a grid both are the team.
struct ComparedRanks {
  Comm& team;
  Comm& same_block;
};

/// FaultError, on every rank, when the model does not have the same bits on all of them. `position` is the position in
/// the run: "at the start of stage 1 (...)". The message names the ranks of the world that differ from most, and their
/// nodes. When all agree, this costs a hash on each rank and 16 bytes of messages, twice with row-parallel weights.
/// Collective.
void require_same_model(Backend& backend, Model& model, Compared what, const ComparedRanks& ranks,
                        const std::string& position);

/// Makes the running statistics their mean over the ranks. With local batch norm every rank has its own; the model that
/// is validated, fused and saved has the mean. Collective.
void average_state(Backend& backend, Model& model, Comm& team);

}  // namespace mrmf
