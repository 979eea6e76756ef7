// What an unfinished run may continue with: the same configuration, the same data, mini-batches of the same size.
#pragma once

#include <optional>
#include <string>

#include "io/rows/data_record.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// One start of a run: everything that its results depend on.
struct RunStart {
  Config config;
  Index samples = 0;                 ///< samples of the training data
  int ranks = 1;                     ///< all of the run
  std::optional<DataRecord> data{};  ///< data of its files (src/run/recorded_data.hpp); earlier versions kept none
};

/// Whether the last phase may have more epochs than when the run was saved: train --continue.
enum class Epochs { same, more };

/// Whether the numbers in the data files may be others than when the run was saved: train --allow-changed-data.
enum class DataContents { same, any };

/// ConfigError naming the files that are new or gone, or the first keys that differ, with both values. [run], data.load
/// and data.memory may differ. So may the number of ranks and the grids if the mini-batches stay the same (data.shards
/// set, and batch times ranks, or groups of ranks, kept), but not with local batch norm. What it advises is what the
/// command takes: with Epochs::more neither --overwrite nor another folder.
///
/// Where both have records of their data, the files are held against each other one by one: DataError when their
/// numbers differ, and what they are called, how large they are and when they were written may differ.
void require_continuable(const RunStart& was, const RunStart& is, Epochs epochs = Epochs::same,
                         DataContents contents = DataContents::same);

/// What a resumed run says of data that it may continue with: that files were moved or written again, or hold other
/// numbers; empty where nothing of the kind was found.
std::string data_news(const RunStart& was, const RunStart& is);

}  // namespace mrmf
