// The data of a run, and the memory for them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/sample_store.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/augmentation.hpp"

namespace mrmf {

// A run's memory for data: what stays in memory, and what the configured limit leaves room for.

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

// Training and validation data of a run: this rank's rows at every resolution of the plan, in memory or streamed as
// configured. The files' headers decide what stays in memory, before any data are read.

/// DataError where the same rows are named twice, or are in two of the splits (io/rows/duplicate_rows.hpp), unless
/// data.duplicates allows it. The shapes are what inspect_dataset() has found; `test`: of test_headers(), or null.
/// Collective.
void require_distinct_rows(const DataConfig& data, const DatasetShape& train, const DatasetShape& validation,
                           const DatasetShape* test, Comm& comm);

/// Whether the configuration says which rows test: data sets of their own, a share, or values of a column.
bool has_test_split(const DataConfig& data);

/// Headers of a test split of data sets of its own; none: there is no such split. DataError where they cannot be read,
/// or its samples differ from the training data's. Looks for no rows that are not finite. Collective.
std::optional<DatasetShape> test_headers(const DataConfig& data, const DatasetShape& train, Comm& comm);

/// A line for each file with rows that were left out; none where nothing was.
std::vector<std::string> skipped_lines(const DatasetSpec& spec, const DatasetShape& shape);

/// Rows over all files, for a screen: "a.h5: 3, 7-9, ..." for a few files, then how many more have some.
std::vector<std::string> some_rows(const DatasetSpec& spec, const DatasetShape& shape, const std::vector<Index>& rows);

/// That no label of a part of the data ("training", "validation") counts, and why; no whole line.
std::string no_label_text(const DatasetSpec& spec, const TrainingConfig& training, const std::string& part);

/// One split as the training loop sees it.
struct Split {
  DatasetShape shape;
  std::unique_ptr<SampleStore> store;
  OrderSettings order;                 ///< batch is set per phase
  std::map<Extent, Index> batch_rows;  ///< the largest batches of the plan, by resolution
  Augmentation augment;                ///< changes of training samples
  NumberKinds kinds{};                 ///< for them
  bool boxes = false;                  ///< the store gives boxes of samples
  Index labelled = 0;                  ///< samples of all ranks that have a label that counts; the others have no loss
};

/// What a rank takes of the data.
struct DataShare {
  Comm& team;  ///< the ranks that share out the samples
  /// Where several ranks share each sample: the positions that this rank needs, at the original resolution; none: all.
  std::optional<Box> block{};
  std::vector<Extent> resolutions{};  ///< at which it needs them; empty: all of the plan's
  Comm* sharers = nullptr;            ///< all ranks, where several share each sample: all stream, or none
};

class Data {
 public:
  enum class Reading { now, later };
  /// What a caller that has resolved data.normalise (resolve_normalisation) has found of the data. It spares searches
  /// for rows that are not finite, and a second look at the range of numbers.
  struct Known {
    DatasetShape train;
    std::optional<DatasetShape> validation{};
    bool held_out = false;  ///< the rows that data.part holds out are wanted, too
  };
  /// Opens and checks the files, decides what stays in memory, and reads this rank's rows unless they are streamed; or
  /// leaves the latter two to load(). Collective over `team`, whose ranks on a node share data.memory from now on.
  Data(const Config& config, Comm& team, Reading reading = Reading::now, const Known* known = nullptr);

  bool loaded() const { return train_.store != nullptr; }
  /// Gets this rank its share, unless it has it, and drops everything else. Collective over all ranks of the run: of
  /// samples that ranks share, all change together from one grid to another. DataError where no label of the training
  /// data counts. load_seconds() has the time of the first reading; the next require() includes that of later ones.
  /// A block alone is read where reads_blocks().
  void load(const DataShare& share);
  void load(Comm& team) { load(DataShare{team}); }

  const Config& config() const { return config_; }
  Split& train() { return train_; }
  Split& validation() { return validation_; }
  /// The rows that data.part holds out, where the caller has wanted them; else null.
  Split* held_out() { return held_out_ ? &*held_out_ : nullptr; }
  const DatasetShape& shape() const { return train_.shape; }
  double load_seconds() const { return load_seconds_; }
  /// One line for people: in memory or streamed, how much of it, and how it is read.
  const std::string& way() const { return way_; }
  /// Whether loading a batch may fail on one rank alone, so that the others must be told. The same on every rank.
  bool streams() const { return train_.store->streams(); }

  /// Makes both splits ready at this resolution unless they are; returns the seconds it took. Requires loaded().
  double make_ready(const Extent& resolution);
  void release(const Extent& resolution);
  /// Labels of each class in the training data, as far as the team's ranks have them; empty where labels are no
  /// classes. Collective over `team`. Requires loaded().
  std::vector<Index> class_counts(Comm& team) const;
  /// Seconds spent on averaging samples since the last call (see SampleStore). Requires loaded().
  double take_averaging_seconds() {
    return train_.store->take_averaging_seconds() + validation_.store->take_averaging_seconds();
  }

 private:
  void read(const DataShare& share);
  std::vector<Split*> splits();

  Config config_;
  std::vector<Extent> resolutions_;  // resolutions of which a block is there; empty: whole samples, of all
  int host_ranks_ = 1;               // the run's ranks on this node
  Split train_, validation_;
  std::optional<Split> held_out_;
  std::string way_;
  double load_seconds_ = 0;
  double later_seconds_ = 0;  // seconds of reading during the run
};

/// How a data set of this many samples is cut for a team of `ranks`, as seen by `rank`. The batch is still to be set.
OrderSettings order_settings(const DataConfig& config, Index samples, int ranks, int rank);
/// Whether a rank of a grid reads its block of each sample alone. Else whole samples, which are cut when they have
/// become what the network sees.
bool reads_blocks(const DataConfig& data);
/// How many boxes of each training sample of this shape an epoch at a resolution takes (OrderSettings::repeats); 1:
/// whole samples, or as many positions.
Index boxes_of_each(const DataConfig& config, const Shape& sample, const Extent& resolution);

/// The largest batches of the plan, by resolution. `rows_of` gives a split's rows for a training batch. With
/// data.averaging = "epoch", all resolutions come from the same stream of originals, so each gets the largest of all.
std::map<Extent, Index> largest_batches(const Config& config, const std::function<Index(Index)>& rows_of);

/// The batch for validation: the set may be smaller than the training batch, or leave ranks without samples.
Index validation_batch(const OrderSettings& order, Index batch);

}  // namespace mrmf
