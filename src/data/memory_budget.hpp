// A run's memory for data: what stays in memory, and what the configured limit leaves room for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/patches.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/sample_store.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Share of the host's memory for data unless data.memory is set; models, activations and the page cache need the rest.
inline constexpr double kShareOfMemory = 0.5;

/// A data set as this rank will use it.
struct DataPart {
  DatasetShape shape;
  OrderSettings order;                   ///< batch does not matter
  std::map<Extent, Index> batch_rows{};  ///< by the resolutions at which it will be used
  PatchSettings patch{};                 ///< boxes of its samples that are taken; without a size, whole ones
};

struct MemoryBudget {
  std::vector<StoreSettings> stores;  ///< one per part
  std::string text;                   ///< what stays in memory, out of how much, for people; the same on every rank
};

/// Bytes of this rank's samples and labels of all parts, while these resolutions are in use one after the other.
Index data_bytes(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores,
                 const std::vector<Extent>& resolutions);

/// Collective over `team`, of whose ranks `sharing` share each sample. The run's `host_ranks` ranks on this node, of
/// any team, share data.memory. ConfigError, with both numbers, when it is too small for the batches, or for all
/// samples if data.load is "memory".
MemoryBudget budget_memory(const DataConfig& config, const std::vector<DataPart>& parts, Comm& team, int host_ranks,
                           int sharing = 1);

}  // namespace mrmf
