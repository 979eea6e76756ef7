// The CPU's kernels for a run's convolutions and dense layers, chosen before training begins: timed on one rank for
// all, or known from an earlier run on this machine, which left them in the user's file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_choice.hpp"
#include "layers/execution.hpp"
#include "src/plan/plan.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

// The user's file of the CPU's fastest kernels, so that they are timed once on each machine.

/// What choices hold for: the processor, its instruction set, and the versions of this program and of oneDNN.
std::string kernel_machine(const Backend& backend);

/// The choices that earlier runs made, by machine. The file has a checksum. On one rank.
class KernelFile {
 public:
  /// Reads the file if there is one. An empty path: none, and nothing is kept.
  explicit KernelFile(std::string path);

  /// Why the file is not used; empty when it is, or when there is none yet.
  const std::string& ignored() const { return ignored_; }
  /// Adds what was chosen on this machine.
  void fill(cpu::KernelChoices& choices, const std::string& machine) const;
  /// Keeps them beside what others have kept since the file was read. Returns why it could not; else nothing.
  std::string keep(const cpu::KernelChoices& choices, const std::string& machine);

 private:
  void read();

  std::string path_, ignored_;
  bool may_replace_ = true;
  std::map<std::string, std::string> by_machine_;  // KernelChoices::text(); of other versions, whatever they wrote
};

/// Chooses for all convolutions and dense layers of such models, so that models made by this backend from now on have
/// the chosen kernels. Nothing to do where the backend takes fixed kernels. All ranks get the same choices. Collective.
/// Returns what there is to say about it: a line on the root, or nothing.
std::string choose_kernels(Backend& backend, const std::vector<ModelSettings>& models, Comm& ranks);

/// The same for the models of a plan. A run that continues keeps the kernels that it began with. Where they do not
/// serve, as with another number of threads, other rows or blocks on a rank, or on another processor, it chooses as a
/// new run.
void choose_kernels(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
