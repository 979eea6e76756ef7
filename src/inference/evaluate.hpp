// How well a trained model does on data with labels.
#pragma once

#include "src/inference/scores.hpp"
#include "src/inference/trained.hpp"

namespace mrmf {

struct Evaluation {
  Scores scores;     ///< over all rows of all ranks, in the labels' own units
  DatasetSpec data;  ///< that was evaluated
  Index samples = 0;
  std::string warning;  ///< why there is nothing to score; else ""
};

/// What is scored of a model: everything, but areas under ROC curves of positions only where training.metric names
/// them.
ScoreSettings evaluation_settings(const Trained& t);

/// Runs one model on a data set. Collective; the same result on every rank. ConfigError for options that do not go
/// together; DataError where model, data or labels cannot be read or do not fit; FaultError for an output that is not
/// finite. requires: one model.
Evaluation evaluate(const ModelOptions& options, Comm& world);

}  // namespace mrmf
