#include "kernels/cuda/conv_proposals.hpp"

#include <array>

#include "kernels/cuda/conv_graph.hpp"

namespace mrmf::cuda {
namespace {

constexpr std::array modes{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};

std::string megabytes(std::size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB"; }

}  // namespace

ConvProposals::ConvProposals(const ConvProblem& problem, const DeviceModel& device, std::size_t workspace)
    : problem_(problem), device_(device), workspace_(workspace), graph_(make_conv_graph(problem, device)) {}

std::optional<EngineConfig> ConvProposals::next() {
  while (position_ < pending_.size() || refill()) {
    EngineConfig& config = pending_[position_++];
    ++seen_;
    if (!known_.insert({config.engine, config.knobs}).second) continue;
    const std::string reason = objection(config);
    if (reason.empty()) return std::move(config);
    refuse(config, reason);
  }
  return std::nullopt;
}

void ConvProposals::refuse(const EngineConfig& config, const std::string& reason) {
  last_refusal_ = describe(config) + ": " + reason;
}

bool ConvProposals::refill() {
  while (mode_ < modes.size()) {
    pending_ = propose_engines(graph_, modes[mode_++], device_);
    position_ = 0;
    if (!pending_.empty()) return true;
  }
  return false;
}

/// Why an engine must not be used; empty when it may.
std::string ConvProposals::objection(const EngineConfig& config) {
  const EngineNotes& notes = config.notes;
  if (notes.reduced_reduction) return "sums are kept in fp32";
  if (problem_.deterministic && notes.nondeterministic) return "the run is deterministic";
  if (problem_.precision == Precision::fp32 && notes.tensor_cores) return "fp32 is not rounded to tf32";
  if (problem_.precision != Precision::bf16 && notes.down_converts) return "inputs are not narrowed";
  if (config.workspace > workspace_) {
    return "wants " + megabytes(config.workspace) + " of workspace, the limit is " + megabytes(workspace_);
  }
  return "";
}

}  // namespace mrmf::cuda
