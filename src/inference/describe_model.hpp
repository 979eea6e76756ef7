// A trained model for a reader: its scores, and what it says of some samples.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/inference/trained_models.hpp"
#include "src/run/model_report.hpp"

namespace mrmf {

/// Runs the model of a finished run on its validation samples, or on those of its test split. What stands in the way,
/// such as data that are gone, is the report's `problem`. requires: one rank.
ModelReport describe_model(const std::string& run, Subset split, Comm& self);

}  // namespace mrmf
