// Checkpoints of a run (checkpoint.cpp); whether a later start may continue from them, with the same configuration,
// data files and mini-batches (resume_checks.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/rows/data_record.hpp"
#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {

// What a run remembers of its data files, and whether those of a later start hold the same numbers.

/// Looks at the files of a configuration. Read on the root; the same on every rank. DataError when they cannot be read.
DataRecord record_data(const DataConfig& data, Comm& world);

std::string to_json(const DataRecord& record);
/// DataError, naming `origin`, for another text.
DataRecord data_record_from_json(const std::string& text, const std::string& origin);

/// A record with the files that it is of.
struct RecordedData {
  std::vector<UsedFile> files;
  DataRecord record;
};

/// Whether both are lists of as many files, which can be held against each other one by one.
bool comparable(const RecordedData& was, const RecordedData& is);

/// What differs between the numbers of two comparable ones, for people: "data set 'x' of d.h5 holds other numbers
/// (written 2026-11-26 09:41:26, and 2026-11-25 18:00:02 then)". Empty where what was looked at is the same.
std::string changed_numbers(const RecordedData& was, const RecordedData& is);

/// The same numbers under other names, of other sizes or times, for people; empty where these are the same, too.
std::string touched_files(const RecordedData& was, const RecordedData& is);

// What an unfinished run may continue with: the same configuration, the same data, mini-batches of the same size.

/// One start of a run: everything that its results depend on.
struct RunStart {
  Config config;
  Index samples = 0;                 ///< samples of the training data
  int ranks = 1;                     ///< all of the run
  std::optional<DataRecord> data{};  ///< the data that the model was trained on; earlier versions kept none
};

/// Whether the last phase may have more epochs than when the run was saved: train --continue.
enum class Epochs { same, more };

/// Whether the numbers in the data files may be others than when the run was saved: train --allow-changed-data.
enum class DataContents { same, any };

/// ConfigError naming the files that are new or gone, or the first keys that differ, with both values. [run], data.load
/// and data.memory may differ. So may the number of ranks and the grids if the mini-batches stay the same (data.shards
/// set, and batch times ranks, or groups of ranks, kept), but not with local batch norm. What it advises is what the
/// command takes: with Epochs::more neither --overwrite nor another folder.
///
/// Where both have records of their data, the files are held against each other one by one: DataError when their
/// numbers differ, and what they are called, how large they are and when they were written may differ.
void require_continuable(const RunStart& was, const RunStart& is, Epochs epochs = Epochs::same,
                         DataContents contents = DataContents::same);

/// What a resumed run says of data that it may continue with: that files were moved or written again, or hold other
/// numbers; empty where nothing of the kind was found.
std::string data_news(const RunStart& was, const RunStart& is);

// A checkpoint is an HDF5 file:
//
//   /parameters /state /moments/<i>   <layer>/<tensor>, channels-last float32; momenta that each worker has of its own
//                                     have a row for each
//   /residuals /sum_residual          what compressed sums left out: a row for each worker, and of the sum
//   /best/parameters /best/state      the best epoch's model, where it is kept beside the last one
//   /progress /config                 JSON and TOML; the format's number is an attribute
//   the last 16 bytes                 a checksum of all bytes before, so that nothing damaged reaches the HDF5 library
//
// Where ranks share samples, untied weights are in files beside it (below). The checkpoint
// is written under another name and then renamed, so that it is there whole or not at all.

class Backend;
class Network;
class ParameterLayout;

/// A model's parameters and state in the host's memory, laid out as in its arenas; empty: there is none.
struct HostModel {
  std::vector<float> params, state;
  bool empty() const { return params.empty(); }
};

/// What each worker has of its own (src/training/model_and_optimizer.hpp), laid out as the parameters.
struct SavedWorkers {
  int all = 1;                  ///< workers of the team; every rank has as many
  std::vector<Span> momenta{};  ///< by worker of this rank, in place of the first moment; empty: none
  std::vector<Span> residuals{};
  Span sum_residual{};  ///< the team's: each rank has some values, and zeros elsewhere; empty: none
};

/// A checkpoint's part of a model in training: views of its arrays, which lie in the backend's memory.
struct SavedArrays {
  const Network& network;
  const ParameterLayout& layout;  ///< layout of parameters and moments
  Comm* sample_group = nullptr;   ///< the ranks that share a sample, where they hold row-parallel weights
  Span params, state;
  std::vector<Span> moments;  ///< moments of the optimizer, laid out as params
  MomentAges ages;            ///< ages of the moments
  HostModel* best = nullptr;  ///< the best epoch's model, the same on every rank; null or empty: none
  SavedWorkers workers{};
};

struct CheckpointTexts {
  std::string progress, config;
  std::string blocks = {};  ///< which files beside it have a part of it; empty: none
};

/// Whose state the file holds. With local statistics of batch norm, every rank's: one row per rank.
enum class StateRows { one, one_per_rank };

/// Collective; the root writes its own values and texts. Weights that are cut are put together first. DataError when
/// the disk is full or not writable; an earlier file then stays untouched.
void save_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, const CheckpointTexts& texts,
                     StateRows rows, Comm& team);

/// The file of an earlier round of a tournament, beside this one.
std::string path_before(const std::string& file);

/// Reads only the texts. DataError, with what to do, for a file that is torn, damaged or no checkpoint. Run on one
/// rank.
CheckpointTexts read_checkpoint_texts(const std::string& path);

/// Collective: fills the model's parameters, state and moments with the bits that were saved. DataError as above, and
/// for another network's arrays: when the file lacks one of the model's, or the model one of the file's. Where the file
/// has the momenta of another number of workers, which is returned (else 0), each worker gets their mean, and its share
/// of what all residuals hold.
int load_checkpoint(Backend& backend, const std::string& path, const SavedArrays& model, StateRows rows, Comm& team);

/// Where a saved phase continues. Its optimizer takes the ages; the arrays already have its moments.
struct Restored {
  TrainState state;
  MomentAges ages;
  int saved_workers = 0;  ///< whose momenta or residuals were saved, where there are others now
};

/// The checkpoints of a run: one file per phase of the plan, checkpoints/phase-<n>.h5, written by the team that trains
/// that phase. From them, the same command continues where the run was saved.
///
/// A stage's files are kept until the next stage's coarse model (or the last model), which was fused from its models,
/// is on disk. So a run continues at the last stage whose coarse model has a file, and repeats a fusion without one.
/// The last phase's file stays when the run is done, so that the run may continue for more epochs.
///
/// In a tournament, the file of the round before the last one that was saved stays beside it (phase-<n>-before.h5): a
/// kill may find some trainers saved in the last one, and others not (src/tournament/trainer_setup.cpp).
class Checkpoints {
 public:
  /// `samples` is the number of training samples. Does not look for files yet.
  Checkpoints(const Config& config, const Plan& plan, Index samples, int ranks, Epochs epochs = Epochs::same);

  /// What this start's data files hold, which find() compares and save() keeps; unless told, neither does.
  void set_data(DataRecord record, DataContents contents) { data_ = std::move(record), contents_ = contents; }

  /// Looks for an earlier start's files in run.folder. Collective over the world. DataError for a torn or damaged file.
  /// DataError also for other numbers in the data files.
  /// ConfigError when the run was begun with another configuration, on other data, or on a number of ranks that changes
  /// its mini-batches; and when more epochs are wanted and something else has ended the last phase.
  void find(Comm& world);
  bool found() const { return !found_.empty(); }
  /// The run's position in words. Requires found().
  std::string position() const;
  /// A line about data files that were moved or written again since; empty where there is nothing to say.
  const std::string& data_line() const { return data_line_; }
  /// The records so far, in the plan's order.
  std::vector<PhaseHistory> history() const;
  /// Stages of the plan that the run has completed: files saved later include their models.
  std::size_t stages_behind() const { return static_cast<std::size_t>(first_stage_) - 1; }

  /// Whether the program chose the run's method (method.name = "auto"): what this start says, or an earlier one did. A
  /// run resumed by its folder has the method that was chosen in its configuration.
  void set_automatic(bool automatic) { automatic_ = automatic; }
  bool automatic() const { return automatic_; }

  /// The kernels of the run's layers (cpu::KernelChoices::text()): what this start chose, or an earlier one did;
  /// empty where they were the fixed ones.
  void set_kernels(std::string kernels) { kernels_ = std::move(kernels); }
  const std::string& kernels() const { return kernels_; }

  /// What training.communication = "auto" has come to, in this start or an earlier one; empty where it does not choose.
  void set_communication(std::string scheme) { communication_ = std::move(scheme); }
  const std::string& communication() const { return communication_; }

  /// Adds a phase that other ranks have trained to its end: its history is saved from now on.
  void add(const Phase& phase, const PhaseHistory& history);

  /// Removes all files, found or not, of a run that begins anew.
  void clear(const Comm& world);
  /// Removes all files but the last phase's, of a run that is done.
  void keep_last(const Comm& world);

  /// The saved state of this phase, with the arrays as they were then, and `best` with it; none if the phase was not
  /// begun. Collective.
  std::optional<Restored> load(Backend& backend, const SavedArrays& model, const Phase& phase, Comm& team) const;
  /// Collective. DataError when the file cannot be written; the earlier one is then still there.
  void save(Backend& backend, const SavedArrays& model, const Phase& phase, const TrainState& state, Comm& team);

 private:
  struct Saved {
    Phase phase;
    Restored restored;
  };
  std::string path(int number) const;
  void adopt(const Phase& phase, const CheckpointTexts& texts);
  void go_further(TrainState& state) const;
  CheckpointTexts texts(const MomentAges& ages, const Phase& phase, const TrainState& state) const;

  Config config_;
  std::vector<Phase> phases_;  // phases of the plan
  Index samples_;
  int ranks_;
  Epochs epochs_;
  bool automatic_ = false;
  std::string kernels_, communication_;
  std::optional<DataRecord> data_;
  DataContents contents_ = DataContents::same;
  std::string data_line_;
  int first_stage_ = 1;
  std::map<int, std::string> paths_;   // by the phase's number, since find()
  std::map<int, Saved> found_;         // by the phase's number
  int saved_round_ = 0;                // a tournament's round in the last phase's file
  std::map<int, PhaseHistory> ended_;  // histories of phases that have ended
};

}  // namespace mrmf
