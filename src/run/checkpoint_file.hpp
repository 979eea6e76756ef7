// One checkpoint on disk: HDF5 with /parameters/<layer>/<part>, /state/<layer>/<part> and /moments/<i>/<layer>/<part>,
// channels-last and float32, the texts /progress (JSON) and /config (TOML), and the format as an attribute. Behind
// HDF5's last byte come 16 more: a checksum of all before them, so that nothing damaged reaches the HDF5 library.
// Written beside its target and renamed, so that it is there whole or not at all.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

struct CheckpointTexts {
  std::string progress, config;
};

/// Whose state the file holds: every rank's where batch norm takes each rank's own statistics, one row per rank.
enum class StateRows { one, one_per_rank };

/// Collective; the root writes, its values and texts count. DataError where the disk is full or not writable: the file
/// that was there before is untouched.
void save_checkpoint(Backend& backend, const std::string& path, Learner& learner, const CheckpointTexts& texts,
                     StateRows rows, Comm& team);

/// Reads the texts alone. DataError for a file that is torn, damaged or no checkpoint, with what to do. Run on one
/// rank.
CheckpointTexts read_checkpoint_texts(const std::string& path);

/// Collective: fills the learner's parameters, state and moments, the same bits that were saved. DataError as above,
/// and for arrays of another network: one of the learner's that the file lacks, or one of the file's that it lacks.
void load_checkpoint(Backend& backend, const std::string& path, Learner& learner, StateRows rows, Comm& team);

}  // namespace mrmf
