// Trained models, from the names that a user gives to their outputs for every batch.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/sample_store.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/backend.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/model_file.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

// The trained model that a user names: a run's folder, or a model file.

struct ModelChoice {
  Config config;    ///< with which it was trained
  std::string run;  ///< the folder of its run; "" of a model file
  std::string file;
  Extent resolution{1, 1, 1};
  std::string text;  ///< describes a model that is not a finished run's; else ""

  /// Files that a command with this model reads, beside data.
  std::vector<std::string> inputs() const;
};

/// Which of a run's models is wanted.
struct WantedModel {
  bool checkpoint = false;          ///< the newest checkpoint's, of a run that is not done
  std::optional<WhichEpoch> epoch;  ///< epoch of a run that is done; the best unless given
};

/// `from` is a run's folder or a model file. DataError when there is no such model, with what to do. Collective.
ModelChoice choose_model(const std::string& from, const WantedModel& wanted, Comm& world);

/// The epoch of the model in a file.
struct EpochOfModel {
  std::string text{};  ///< "FILE: epoch 3 of 8, validation 0.2, the best one"; empty: the file does not know
  bool later = false;  ///< epochs came after this one
};
EpochOfModel epoch_of(const std::string& file, Comm& world);  ///< Collective.

/// Prints the same, and how to take the last one. Collective.
void tell_epoch(const std::string& file, std::ostream& out, Comm& world);

/// Looks for missing relative files where the run was started, too: above its folder, according to run.folder.
void find_from_run(std::vector<std::string>& files, const ModelChoice& choice);

// Which rows of given data a model was trained on.

/// Says that the samples are among the rows that the model was trained on, with how many of them where the training
/// files are still there; "" where none is. `shape` is what inspect_dataset() found of `spec`. Rows that training left
/// out, because not all of their numbers are finite, count as its own. The same on every rank. Collective; reads
/// headers, and of a split by a column that column.
std::string training_rows_text(const ModelChoice& choice, const DatasetSpec& spec, const DatasetShape& shape,
                               Comm& world);

// Trained models with the data that they are run on: what evaluating and predicting share.

/// Which models are run on which data.
struct ModelOptions {
  std::vector<std::string> models;          ///< folders of runs, or model files; several of one kind only to predict
  std::vector<std::string> files;           ///< replace the run's own data
  Subset split = Subset::validation;        ///< whose rows and data set names are used
  std::vector<std::string> samples;         ///< data set names if not the run's
  std::vector<std::string> labels;          ///< data set names if not the run's; predict needs none
  std::string groups;                       ///< the groups that are samples; empty: those of the split
  std::optional<MissingRule> missing;       ///< if other than the run's data.missing
  std::optional<NotFiniteRule> not_finite;  ///< if other than the run's data.not_finite
  std::optional<PackingRule> packing;       ///< if other than the run's data.packing
  std::optional<DuplicateRule> duplicates;  ///< if other than the run's data.duplicates
  std::string output;                       ///< HDF5 file that will be written; empty: none
  std::vector<std::string> append{};        ///< data sets of the sample files to copy into it
  Replace replace = Replace::nothing;
  WantedModel wanted{};
  std::ostream* notes = nullptr;  ///< gets lines for people, such as of which epoch a model is; null: nobody does
};

enum class LabelUse { needed, unread };

/// A trained model, and the units in which it sees labels and, where the models differ in them, samples.
struct TrainedModel {
  std::string name;  ///< as the caller has it: its run's folder or its file
  Config config;
  ChannelMap samples{}, labels{};
  std::unique_ptr<Model> model;
};

/// Trained models of one kind, and this rank's rows of a data set. What is not the models' own is the first one's.
struct Trained {
  Config config;
  std::unique_ptr<Backend> backend;
  DatasetSpec spec;
  Extent resolution{1, 1, 1};
  DatasetShape shape;
  std::unique_ptr<SampleStore> store;  ///< the samples, in the units that all models share
  std::vector<TrainedModel> models;    ///< at least one

  Task task() const { return config.training.loss.task(); }
  /// The shape of whole samples, which a model may take in windows.
  Shape input() const {
    Shape input = models.front().model->network().input();
    if (windows()) input.spatial = store->sample(resolution).spatial;
    return input;
  }
  Shape output() const {
    Shape output = models.front().model->network().output();
    if (windows()) output.spatial = store->sample(resolution).spatial;
    return output;
  }
  bool windows() const { return config.data.patch.any(); }
  Index target_channels() const { return mrmf::target_channels(store->target(resolution), output()); }
};

/// Collective. ConfigError where the models are not of one kind: tasks, samples and outputs differ, or one is there
/// twice. DataError where the same row is there twice, unless data.duplicates allows it: it would count twice.
Trained open_trained(const ModelOptions& options, LabelUse labels, Comm& world);

/// How often each model is run on a batch.
struct Passes {
  int dropout = 0;         ///< passes with dropout; 0: one without
  std::uint64_t seed = 1;  ///< seed of their masks
  int of_each() const { return dropout > 0 ? dropout : 1; }
};

/// What a model made of a batch of this rank's rows, in the host's memory.
struct BatchResult {
  const TrainedModel& by;
  Index first = 0;  ///< global row
  Index rows = 0;
  ConstSpan samples;  ///< in the units of the store, which all models share
  ConstSpan outputs, labels;
  double loss = 0;  ///< the sum over the rows; 0 without labels
};

/// Calls visit(result) for every batch of this rank's rows: for each model, for each of its passes. FaultError for an
/// output that is not finite.
void for_each_batch(Trained& t, const Passes& passes, const std::function<void(const BatchResult&)>& visit);

// Which trained models may predict the same samples together.

/// ConfigError unless all models are of one kind, no two of them are one, and none was trained on samples that another
/// one's split is for, as the folds of one split are. Runs before any data are read. Collective.
void require_together(const ModelOptions& options, const std::vector<ModelChoice>& choices, Comm& world);

/// The error that two models cannot predict together, and why.
[[noreturn]] void refuse_together(const std::string& a, const std::string& b, const std::string& why);

}  // namespace mrmf
