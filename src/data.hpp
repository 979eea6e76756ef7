// The training and the validation data of a run: this rank's rows in memory at every resolution the plan needs.
#pragma once

#include <memory>

#include "io/coarsen.hpp"
#include "io/sample_store.hpp"
#include "src/config.hpp"

namespace mrmf {

/// One split as the training loop sees it.
struct Split {
  DatasetShape shape;
  std::unique_ptr<SampleStore> store;
  OrderSettings order;  ///< batch is set per training step
};

class Data {
 public:
  /// Opens and checks the files and reads this rank's rows. Collective over `team`.
  Data(const Config& config, Comm& team);

  Split& train() { return train_; }
  Split& validation() { return validation_; }
  const DatasetShape& shape() const { return train_.shape; }
  double load_seconds() const { return load_seconds_; }

  /// Averages both splits to this resolution unless that has been done; returns the seconds it took.
  double require(const Extent& resolution);
  void release(const Extent& resolution);

 private:
  Split train_, validation_;
  double load_seconds_ = 0;
};

/// How a data set of this many samples is cut for the ranks of `team`; batch is still to be set.
OrderSettings order_settings(const DataConfig& config, Index samples, const Comm& team);

}  // namespace mrmf
