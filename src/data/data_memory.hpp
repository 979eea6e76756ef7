// What of a run's data is kept in memory, decided from the files' headers before any of it is read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/sample_store.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// A data set as this rank will use it.
struct DataPart {
  DatasetShape shape;
  OrderSettings order;                   ///< batch does not matter
  std::map<Extent, Index> batch_rows{};  ///< by the resolutions it will be used at
};

struct MemoryPlan {
  std::vector<StoreSettings> stores;  ///< one per part
  std::string text;                   ///< for people: what stays in memory, of how much; the same on every rank
};

/// Bytes of this rank's samples and labels of all parts while these resolutions are in use, one after the other.
Index data_bytes(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores,
                 const std::vector<Extent>& resolutions);

/// Collective over `team`. The run's `node_ranks` ranks on this node share data.memory, of whatever teams they are.
/// ConfigError, with both numbers: it is too little for the batches, or for all samples where data.load is "memory".
MemoryPlan plan_memory(const DataConfig& config, const std::vector<DataPart>& parts, Comm& team, int node_ranks);

}  // namespace mrmf
