// The CPU's kernels for a run's convolutions, chosen before training begins: timed on one rank for all, or known from
// an earlier run on this machine (src/system/kernel_file.hpp).
#pragma once

#include <string>
#include <vector>

#include "layers/execution.hpp"
#include "src/plan/plan.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

/// Chooses for all convolutions of such models, so that models made by this backend from now on have the chosen
/// kernels. Nothing to do where the backend takes fixed kernels. All ranks get the same choices. Collective. Returns
/// what there is to say about it: a line on the root, or nothing.
std::string choose_kernels(Backend& backend, const std::vector<ModelSettings>& models, Comm& ranks);

/// The same for the models of a plan. A run that continues keeps the kernels that it began with, and takes fixed ones
/// for what it did not have.
void choose_kernels(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
