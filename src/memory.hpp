// How much memory a run will take on a rank of the CPU, known before it starts.
#pragma once

#include <optional>

#include "layers/execution.hpp"
#include "src/config.hpp"
#include "src/data_memory.hpp"
#include "src/plan.hpp"

namespace mrmf {

/// Bytes of this process that lie in memory now.
Index resident_bytes();

/// Of a rank in training, in bytes.
struct RunMemory {
  Index program = 0;  ///< what any run has: this process at the time of asking
  Index models = 0;   ///< arenas, optimizer moments and a copy of the parameters, of the models that are there at once
  Index workspace = 0;  ///< what the backend's operations keep for themselves, packed weights and scratch
  Index batches = 0;    ///< the batch of samples that is trained or validated on
  Index data = 0;       ///< samples and labels, at the resolutions that are there at once
  Index all() const { return program + models + workspace + batches + data; }
  RunMemory operator+(const RunMemory& other) const;
};

/// The splits as a rank holds them.
struct HeldData {
  std::vector<DataPart> parts;
  std::vector<StoreSettings> stores;  ///< one per part
};

/// Of a model at one resolution of the plan, and its batches. The workspace is found by making the operations.
RunMemory stage_memory(Backend& backend, const NetworkSettings& settings, int moments);

/// The largest sum over models that are there at once (two before a fusion), with the program and, where it is there,
/// the data for those models' resolutions.
RunMemory peak_memory(const std::vector<RunMemory>& stages, const Plan& plan, const std::optional<HeldData>& held);

}  // namespace mrmf
