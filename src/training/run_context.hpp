// What training takes part in, passed by reference through pipeline, stages and trainer.
#pragma once

#include "kernels/backend.hpp"
#include "mpi/comm.hpp"
#include "src/data/data.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/report.hpp"
#include "src/run/signals.hpp"

namespace mrmf {

/// What saves a run under way.
struct Saving {
  Checkpoints& checkpoints;
  SaveTimes& times;
};

/// Owned by the pipeline's caller.
struct RunContext {
  Backend& backend;
  Comm& team;
  Data& data;
  RunReport& report;
  Saving* saving = nullptr;  ///< null: nothing is saved
  /// Shard by shard, the same bits on any number of ranks and threads (src/training/shard_replicas.hpp).
  bool shard_replicas = false;
  SaveTimes* stops = nullptr;  ///< where nothing is saved: what a signal stops nevertheless; null: nothing does

  /// The same for a team of its ranks, which tells another report.
  RunContext of(Comm& its_team, RunReport& its_report) const {
    return {backend, its_team, data, its_report, saving, shard_replicas, stops};
  }
  /// The same for what leaves nothing behind, and stops on a signal as the rest does.
  RunContext apart(RunReport& silent) const {
    return {backend, team, data, silent, nullptr, shard_replicas, saving != nullptr ? &saving->times : stops};
  }
};

}  // namespace mrmf
