// This rank's part of a data set at all required resolutions: in memory, or read ahead batch by batch.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"

namespace mrmf {

/// How a row in memory becomes the sample that the model sees.
struct SampleRecipe {
  Shape stored;  ///< shape of the row as it is stored
  ElementType type = ElementType::float32;
  Extent factor{1, 1, 1};  ///< averaging on the way
  SampleLayout layout = SampleLayout::as_stored;
  const ChannelMap* map = nullptr;  ///< map of the stored channels, after averaging
};

/// The number of parts that a sample of this form may be cut into, one per thread.
Index form_parts(const SampleRecipe& form);

/// Part `number` of `of`.
struct RecipePart {
  Index number = 0, of = 1;
};
/// Makes a part of the sample from the row: averaged, as float32, channels-last, in the map's units. part.of is at most
/// form_parts(form). x is the whole sample.
void make_sample(const SampleRecipe& form, const std::byte* row, RecipePart part, Span x);

/// How a row comes together from the files.
struct RowMaking {
  Index sources = 1;   ///< data sets whose channels follow each other in it, and the mask
  bool moves = false;  ///< channels move to its end
  /// Buffers of a row that a thread needs for that, at most.
  Index copies() const { return (sources > 1 ? 1 : 0) + (moves ? 1 : 0); }
};
RowMaking row_making(const DatasetSpec& spec);

struct StoreSettings {
  bool stream = false;  ///< samples are read when their batch comes; else all are read at the start
  Averaging averaging = Averaging::load;
  Index budget = 0;                          ///< streaming: bytes for this data set on this rank, without labels
  ChannelMap sample_units{}, label_units{};  ///< the units of batches; averaging comes first
  RowMaking making{};                        ///< for plan(); a store has that of its data set
  /// With a size, gather() takes boxes of samples, drawn anew in every epoch: ids are numbers of boxes, sample *
  /// patches_of() + box.
  PatchSettings patch{};
};

/// The samples of this rank. They keep their type (DatasetShape::type; float32 if averaged) until a batch is made.
class SampleStore {
 public:
  /// Collective. Each rank reads its labels and, unless it streams, its samples. Checks them for NaN and infinity
  /// (DataError: file, data set, row in that file). When one rank fails, all throw its error.
  SampleStore(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Comm& comm,
              const StoreSettings& settings = {});
  ~SampleStore();

  /// Makes the data of this resolution ready if it is not yet: each block of factors' neighbours becomes their mean,
  /// channel by channel, and of NaN alone NaN. When streaming, this resolution takes over the memory of the others, for
  /// batches of at most `most_rows`. ConfigError when a factor does not divide its axis.
  void make_ready(const Extent& resolution, Index most_rows = 1);
  /// Frees a resolution that no later phase of the plan needs. Unless streaming, other resolutions are made from the
  /// original {1, 1, 1}: release it only after all that will be needed are ready.
  void release(const Extent& resolution);

  /// Shapes of what gather() takes of a sample there, and of its labels; no channels: there are none.
  Shape sample(const Extent& resolution) const;
  Shape target(const Extent& resolution) const;
  Range owned() const { return owned_; }
  /// Whether batches of this resolution are averaged from the original when they are made, in its own layout. A caller
  /// may then gather the original and average it later.
  bool averages_at_use(const Extent& resolution) const;
  const ChannelMap& label_units() const { return settings_.label_units; }
  bool streams() const { return settings_.stream; }
  const std::string& way() const { return way_; }  ///< how the files are read, for people

  /// Announces the batches of the coming gather() calls, in order. When streaming, they are read ahead. Boxes are drawn
  /// for the order's key.
  void expect(const Extent& resolution, const EpochOrder& order);

  /// Copies samples and labels of the given global ids (all owned) into x and targets, one row per id. With
  /// `reinterpret`, position t and channel c of a sample with T positions come from element c * T + t of its buffer.
  /// Streaming: DataError on this rank alone.
  void gather(const Extent& resolution, std::span<const std::int64_t> ids, Tensor x, Tensor targets) {
    gather_samples(resolution, ids, x);
    gather_labels(resolution, ids, targets.data);
  }
  void gather_samples(const Extent& resolution, std::span<const std::int64_t> ids, Tensor x);
  void gather_labels(const Extent& resolution, std::span<const std::int64_t> ids, Span targets) const;
  /// How many of this rank's labels are of each class; empty where labels are no classes.
  std::vector<Index> class_counts() const { return labels_ ? labels_->counts() : std::vector<Index>{}; }

  /// The class of an owned sample whose label is one class; -1: it is ignored. Labels are classes without positions.
  std::int32_t class_of(std::int64_t id) const { return labels_->class_of(id - owned_.first); }
  /// How many of this rank's samples have a label that counts; all where there are no labels.
  Index labelled() const { return labels_ ? labels_->labelled() : owned_.count; }

  /// Seconds spent on averaging samples since the last call. Reading them does not count, nor does making batches of
  /// samples averaged before. For threads that read ahead, the sum over the threads.
  double take_averaging_seconds() { return averaging_.exchange(0); }

  /// Streaming: how memory would be spent at this resolution, with batches of `most_rows`.
  static StreamMemory plan(const DatasetShape& shape, Range owned, const StoreSettings& settings,
                           const Extent& resolution, Index most_rows);

 private:
  struct Level {
    SampleRecipe form;  // from its rows to the samples of the model
    std::unique_ptr<RowStream> rows;
  };
  void load_original();
  bool converts() const;                        // a thread that reads has buffers of its own
  Shape whole(const Extent& resolution) const;  // shape of a sample there
  Index boxes(const Extent& resolution) const { return patches_of(settings_.patch, whole(resolution)); }
  Box box_of(const Extent& resolution, std::uint64_t key, std::int64_t id) const;
  void find_foreground();
  void cut_boxes(const Extent& resolution, std::span<const std::int64_t> ids, Span x);
  Level make_coarse(const Extent& resolution);
  Level make_stream(const Extent& resolution, Index most_rows);
  Level make_box_stream(const Extent& resolution, Index most_rows);
  Extent kept_resolution(const Extent& resolution) const;
  Level& level(const Extent& resolution);

  DatasetShape shape_;
  Range owned_;
  SampleLayout layout_;
  StoreSettings settings_;
  std::string way_;
  std::optional<Labels> labels_;
  std::vector<Foreground> foreground_;  // the foreground of each row; empty: boxes are drawn anywhere
  std::uint64_t key_ = 0;               // the key of the epoch whose boxes are taken
  std::atomic<double> averaging_{0};    // seconds
  std::unique_ptr<SampleFiles> files_;  // while samples are read
  std::map<Extent, Level> levels_;      // by the resolution of their rows
};

}  // namespace mrmf
