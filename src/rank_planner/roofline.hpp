// Costs on named GPUs by a stated roofline: each pass of each layer takes the larger of its bytes over the memory's
// bandwidth and its operations over the tensor cores' rate, and a launch. Nothing of it is measured by this program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/rank_planner/cost_model.hpp"

namespace mrmf {

/// A GPU and the links between as many of them as a run may have. Data sheets' numbers, times the stated shares.
struct GpuMachine {
  std::string name, title;
  double memory = 0;                                      ///< bytes
  double bytes_per_second = 0;                            ///< data sheet
  double flops_bf16 = 0, flops_tf32 = 0, flops_fp32 = 0;  ///< data sheet, dense; bf16: fp16 on a V100
  int per_node = 8;
  double node_link = 0,
         outer_link = 0;  ///< bytes per second that a GPU sends within its node, and beyond it when all do
  double host_link = 0;   ///< bytes per second from the host's memory to a GPU
};

const std::vector<GpuMachine>& gpu_machines();

/// Shares of the data sheets' numbers that are taken as reached, and times of small things.
struct RooflineShares {
  double memory = 0.85;
  double tensor = 0.5;  ///< tensor cores: of convolutions and dense layers with 64 output channels and more
  double cores = 0.7;   ///< other cores (fp32; a V100's tf32): with 32 output channels and more
  double link = 0.75;
  double launch = 2.5e-6;  ///< seconds of a kernel in a captured step
  /// Seconds of the messages of a halo exchange, which go at once, or of a sum's round: within a node and between
  /// nodes.
  double node_latency = 10e-6, outer_latency = 20e-6;
};

/// `name` of gpu_machines(). ConfigError, with the names, for another.
std::unique_ptr<CostModel> roofline_costs(const std::string& name, Precision precision,
                                          const RooflineShares& shares = {});

}  // namespace mrmf
