// The outputs of trained models for every sample, in a file.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/inference/trained_models.hpp"

namespace mrmf {

struct PredictOptions {
  ModelOptions model;  ///< several models of one kind are averaged; `output` is the HDF5 file to write
  Passes passes;
};

/// Writes data sets "prediction", "probability", "class", and "deviation" of several models or passes, in the labels'
/// own units; docs/guide/taking-away.md has their shapes. Reads no labels. Returns what was written, for people: "180
/// rows; prediction and probability 180x3, class". The file appears whole or not at all. Collective. ConfigError for
/// options that do not go together; DataError where model or data cannot be read or do not fit; FaultError for an
/// output that is not finite.
std::string predict(const PredictOptions& options, Comm& world);

}  // namespace mrmf
