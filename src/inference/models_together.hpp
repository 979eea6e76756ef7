// Which trained models may predict the same samples together.
#pragma once

#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/inference/model_choice.hpp"
#include "src/inference/trained.hpp"

namespace mrmf {

/// ConfigError unless all models are of one kind, no two of them are one, and none was trained on samples that another
/// one's split is for, as the folds of one split are. Runs before any data are read. Collective.
void require_together(const ModelOptions& options, const std::vector<ModelChoice>& choices, Comm& world);

/// The error that two models cannot predict together, and why.
[[noreturn]] void refuse_together(const std::string& a, const std::string& b, const std::string& why);

}  // namespace mrmf
