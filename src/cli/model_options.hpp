// Command-line options that say which models are run on which data. Private to src/cli.
#pragma once

#include <CLI/CLI.hpp>

#include "src/inference/trained.hpp"

namespace mrmf {

/// Adds --epoch and --checkpoint.
void add_wanted(CLI::App& app, WantedModel& wanted);

/// Adds all options that evaluating and predicting share; the models, labels and output are the command's own.
void add_model_options(CLI::App& sub, ModelOptions& options);

}  // namespace mrmf
