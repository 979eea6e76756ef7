// Trained models with the data that they are run on: what evaluating and predicting share.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/sample_store.hpp"
#include "io/values/channel_map.hpp"
#include "kernels/backend.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/inference/model_choice.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

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

}  // namespace mrmf
