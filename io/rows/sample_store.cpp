#include "io/rows/sample_store.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

constexpr Extent original{1, 1, 1};
constexpr Index part_elements = Index{1} << 18;  // so many that starting on a part costs nothing in comparison

/// Reads the flat buffer of a (T, C) sample as (C, T), and stores it channels-last.
void transpose(ConstSpan flat, const Shape& sample, Span x) {
  const Index positions = product(sample.spatial), channels = sample.channels;
  for (Index c = 0; c < channels; ++c)
    for (Index t = 0; t < positions; ++t)
      x[static_cast<std::size_t>(t * channels + c)] = flat[static_cast<std::size_t>(c * positions + t)];
}

Index lines_of(const Shape& sample) { return sample.spatial[0] * sample.spatial[1]; }

}  // namespace

Index form_parts(const SampleRecipe& form) {
  if (form.layout == SampleLayout::reinterpret) return 1;
  const Index wanted = std::max<Index>(1, form.stored.per_sample() / part_elements);
  return form.factor == original ? wanted : std::min(wanted, lines_of(coarse_shape(form.stored, form.factor)));
}

void make_sample(const SampleRecipe& form, const std::byte* row, RecipePart part, Span x) {
  Range made{0, std::ssize(x)};  // which of the sample's values are made here
  if (form.layout == SampleLayout::reinterpret) {
    std::vector<float> flat(x.size());
    SampleRecipe straight = form;
    straight.layout = SampleLayout::as_stored;
    make_sample(straight, row, {}, flat);  // in the units of the stored channels, which were measured
    return transpose(flat, coarse_shape(form.stored, form.factor), x);
  }
  if (form.factor == original) {
    made = piece(std::ssize(x), part.number, part.of);
    to_float32(form.type, row + made.first * size_of(form.type),
               x.subspan(static_cast<std::size_t>(made.first), static_cast<std::size_t>(made.count)));
  } else {
    const Shape small = coarse_shape(form.stored, form.factor);
    const Range lines = piece(lines_of(small), part.number, part.of);
    const Index line = small.spatial[2] * small.channels;
    made = {lines.first * line, lines.count * line};
    coarsen_lines({form.type, form.stored, row}, form.factor, lines, x.data() + made.first);
  }
  if (form.map != nullptr)
    apply(*form.map, made.first, x.subspan(static_cast<std::size_t>(made.first), static_cast<std::size_t>(made.count)));
}

namespace {

constexpr Index task_bytes = Index{1} << 23;  // bytes of neighbouring rows per read
// Threads that read at once when only the disk limits them; fewer when each needs memory of its own.
constexpr int direct_readers = 8, direct_converters = 4;

Index task_rows(Index row_bytes) { return std::max<Index>(1, task_bytes / std::max<Index>(row_bytes, 1)); }

int readers(const ReadPath& way, bool converting) {
  return !way.direct ? 1 : converting ? direct_converters : direct_readers;
}

Index row_bytes(const DatasetShape& shape) { return shape.read_sample().per_sample() * size_of(shape.type); }

bool keeps_original(const StoreSettings& settings, const Extent& resolution) {
  return resolution == original || settings.averaging == Averaging::epoch;
}

/// Bytes for unpacked chunks. While streaming, a small part of the budget, since most rows come in random order.
Index most_cached(const StoreSettings& settings) {
  return settings.stream ? std::min(kMostCached, settings.budget / 8) : kMostCached;
}

// Adds the seconds of its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<double>& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += timer_.seconds(); }

 private:
  std::atomic<double>& sum_;
  Timer timer_;
};

}  // namespace

RowMaking row_making(const DatasetSpec& spec) {
  return {1 + std::ssize(spec.more_samples) + (spec.mask ? 1 : 0), parse_axes(spec.axes).moves()};
}

SampleStore::SampleStore(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Comm& comm,
                         const StoreSettings& settings)
    : shape_(shape), owned_(owned), layout_(spec.layout), settings_(settings) {
  settings_.making = row_making(spec);
  collective_try(comm, [&] {
    files_ = std::make_unique<SampleFiles>(spec, shape, owned, most_cached(settings));
    const ReadPath way = files_->way();
    const int threads = readers(way, converts());
    way_ = "independent reads of each rank on " + (threads == 1 ? "1 thread" : std::to_string(threads) + " threads") +
           ", " + way.text;
    if (shape.label.channels > 0) labels_.emplace(spec, shape, owned);
    if (settings.patch.any() && settings.patch.foreground > 0) find_foreground();
    if (!settings.stream) load_original();
  });
}

SampleStore::~SampleStore() = default;

void SampleStore::find_foreground() {
  foreground_.resize(static_cast<std::size_t>(owned_.count));
#pragma omp parallel for schedule(dynamic)
  for (Index row = 0; row < owned_.count; ++row) foreground_[static_cast<std::size_t>(row)] = labels_->foreground(row);
}

Box SampleStore::box_of(const Extent& resolution, std::uint64_t key, std::int64_t id) const {
  const Shape sample = whole(resolution);
  const auto row = static_cast<std::size_t>(id / patches_of(settings_.patch, sample) - owned_.first);
  return draw_patch({settings_.patch, sample, resolution, foreground_.empty() ? nullptr : &foreground_.at(row)}, key,
                    id);
}

void SampleStore::load_original() {
  Level level{{shape_.read_sample(), shape_.type, original, layout_}, nullptr};
  const RowStream::Settings settings{owned_,
                                     row_bytes(shape_),
                                     {0, 0, owned_.count},
                                     task_rows(row_bytes(shape_)),
                                     readers(files_->way(), converts())};
  level.rows = std::make_unique<RowStream>(
      settings, [this](const ReadTask& task, Scratch& scratch) { files_->read(task.rows, task.to, scratch); });
  level.rows->load_all();
  levels_[original] = std::move(level);
  files_.reset();
}

StreamMemory SampleStore::plan(const DatasetShape& shape, Range owned, const StoreSettings& settings,
                               const Extent& resolution, Index most_rows) {
  StreamBudget budget{owned.count, row_bytes(shape), most_rows, 0, settings.budget};
  Shape taken = shape.read_sample();  // at once
  if (settings.patch.any()) {
    const Extent part = patch_of(settings.patch, coarse_shape(taken, resolution)).spatial;
    for (std::size_t a = 0; a < 3; ++a) taken.spatial[a] = part[a] * resolution[a];
    budget.stay = false;
    budget.row_bytes = taken.per_sample() * size_of(shape.type);
  }
  const Index task = direct_converters * (budget.stay ? std::min(most_rows, task_rows(budget.row_bytes)) : 1);
  budget.scratch = task * taken.per_sample() * shape.converted + task * budget.row_bytes * settings.making.copies() +
                   std::min(most_cached(settings), open_files(shape, owned, settings.making.sources) *
                                                       settings.making.sources * shape.chunks.cache) +
                   shape.chunks.unpacking;
  if (!keeps_original(settings, resolution)) {
    budget.scratch += task * budget.row_bytes;
    budget.row_bytes = coarse_shape(taken, resolution).per_sample() * size_of(ElementType::float32);
  }
  return budget_stream(budget);
}

bool SampleStore::converts() const { return shape_.converted > 0 || settings_.making.copies() > 0; }

Extent SampleStore::kept_resolution(const Extent& resolution) const {
  const bool boxes = settings_.stream && settings_.patch.any();
  return !boxes && keeps_original(settings_, resolution) ? original : resolution;
}

bool SampleStore::averages_at_use(const Extent& resolution) const {
  return kept_resolution(resolution) != resolution && layout_ == SampleLayout::as_stored &&
         settings_.sample_units.empty() && !settings_.patch.any();
}

void SampleStore::make_ready(const Extent& resolution, Index most_rows) {
  sample(resolution);  // throws for an impossible resolution
  const Extent kept = kept_resolution(resolution);
  if (levels_.contains(kept)) return;
  if (settings_.stream) {
    levels_.clear();
    levels_[kept] = make_stream(kept, most_rows);
  } else {
    levels_[kept] = make_coarse(kept);
  }
}

SampleStore::Level SampleStore::make_coarse(const Extent& resolution) {
  Level& fine = level(original);
  const Shape small = whole(resolution);
  const Index bytes = small.per_sample() * size_of(ElementType::float32);
  Level coarse{{small, ElementType::float32, original, layout_}, std::make_unique<RowStream>(owned_, bytes)};
  const Index lines = small.spatial[0] * small.spatial[1];
  const Index parts = form_parts({shape_.read_sample(), shape_.type, resolution, SampleLayout::as_stored});
  const Stopwatch averaging(averaging_);
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < owned_.count * parts; ++i) {
    const Index row = owned_.first + i / parts;
    const Range mine = piece(lines, i % parts, parts);
    coarsen_lines({shape_.type, shape_.read_sample(), fine.rows->buffer_of(row)}, resolution, mine,
                  reinterpret_cast<float*>(coarse.rows->buffer_of(row)) + mine.first * (small.per_sample() / lines));
  }
  coarse.rows->mark_all();
  return coarse;
}

SampleStore::Level SampleStore::make_stream(const Extent& resolution, Index most_rows) {
  if (settings_.patch.any()) return make_box_stream(resolution, most_rows);
  const bool averaged = resolution != original;
  const Index fine_bytes = row_bytes(shape_);
  RowStream::Settings settings{owned_, fine_bytes, plan(shape_, owned_, settings_, resolution, most_rows),
                               std::min(most_rows, task_rows(fine_bytes)),
                               readers(files_->way(), averaged || converts())};
  Level level{{shape_.read_sample(), shape_.type, original, layout_}, nullptr};
  ReaderPool::Read read = [this](const ReadTask& task, Scratch& scratch) { files_->read(task.rows, task.to, scratch); };
  if (averaged) {
    const Shape small = sample(resolution);
    const Index lines = small.spatial[0] * small.spatial[1];
    level.form = {small, ElementType::float32, original, layout_};
    settings.row_bytes = small.per_sample() * size_of(ElementType::float32);
    read = [this, resolution, lines](const ReadTask& task, Scratch& scratch) {
      scratch.fine.resize(static_cast<std::size_t>(task.rows.count * files_->row_bytes()));
      files_->read(task.rows, scratch.fine.data(), scratch);
      const Stopwatch averaging(averaging_);
      coarsen_lines({shape_.type, shape_.read_sample(), scratch.fine.data()}, resolution, {0, task.rows.count * lines},
                    reinterpret_cast<float*>(task.to));
    };
  }
  level.rows = std::make_unique<RowStream>(settings, std::move(read));
  return level;
}

// Boxes are read for one epoch each: nothing stays. They are averaged as they come, whatever data.averaging says of
// whole samples, so that a level's rows are the boxes of its resolution.
SampleStore::Level SampleStore::make_box_stream(const Extent& resolution, Index most_rows) {
  const bool averaged = resolution != original;
  const Index each = boxes(resolution);
  const Shape box = sample(resolution);
  RowStream::Settings settings{{owned_.first * each, owned_.count * each},
                               box.per_sample() * size_of(averaged ? ElementType::float32 : shape_.type),
                               plan(shape_, owned_, settings_, resolution, most_rows),
                               1,
                               readers(files_->way(), averaged || converts())};
  Level level{{box, averaged ? ElementType::float32 : shape_.type, original, layout_}, nullptr};
  level.rows =
      std::make_unique<RowStream>(settings, [this, resolution, averaged, each](const ReadTask& task, Scratch& scratch) {
        const Box fine = at_original(box_of(resolution, task.key, task.rows.first), resolution);
        if (!averaged) return files_->read_box(task.rows.first / each, fine, task.to, scratch);
        Shape stored = shape_.read_sample();
        stored.spatial = fine.count;
        scratch.fine.resize(static_cast<std::size_t>(stored.per_sample() * size_of(shape_.type)));
        files_->read_box(task.rows.first / each, fine, scratch.fine.data(), scratch);
        const Stopwatch averaging(averaging_);
        const Extent small = coarse_shape(stored, resolution).spatial;
        coarsen_lines({shape_.type, stored, scratch.fine.data()}, resolution, {0, small[0] * small[1]},
                      reinterpret_cast<float*>(task.to));
      });
  return level;
}

void SampleStore::release(const Extent& resolution) {
  if (kept_resolution(resolution) == resolution) levels_.erase(resolution);
}

Shape SampleStore::whole(const Extent& resolution) const { return coarse_shape(shape_.read_sample(), resolution); }

Shape SampleStore::sample(const Extent& resolution) const { return patch_of(settings_.patch, whole(resolution)); }

Shape SampleStore::target(const Extent& resolution) const {
  Shape target = labels_ ? labels_->shape(resolution) : shape_.label;
  if (settings_.patch.any()) target.spatial = sample(resolution).spatial;
  return target;
}

SampleStore::Level& SampleStore::level(const Extent& resolution) {
  const auto found = levels_.find(resolution);
  MRMF_CHECK(found != levels_.end(), "this resolution was not required, or was released");
  return found->second;
}

void SampleStore::expect(const Extent& resolution, const EpochOrder& order) {
  key_ = order.key;
  if (settings_.stream) level(kept_resolution(resolution)).rows->expect(order);
}

void SampleStore::gather_samples(const Extent& resolution, std::span<const std::int64_t> ids, Tensor x) {
  const Extent kept = kept_resolution(resolution);
  Level& from = level(kept);
  SampleRecipe form = from.form;
  if (kept != resolution) form.factor = resolution;
  if (!settings_.sample_units.empty()) form.map = &settings_.sample_units;
  const Index width = sample(resolution).per_sample(), rows = std::ssize(ids), each = boxes(resolution);
  MRMF_CHECK(static_cast<Index>(x.data.size()) == rows * width, "x does not fit the ids");
  for (const std::int64_t id : ids)
    MRMF_CHECK(id / each >= owned_.first && id / each < owned_.first + owned_.count,
               "sample " + std::to_string(id / each) + " is not here");
  if (settings_.patch.any() && !settings_.stream) return cut_boxes(resolution, ids, x.data);

  const std::vector<const std::byte*>& stored = from.rows->fetch(ids);
  const Index parts = form_parts(form);
  std::optional<Stopwatch> averaging;
  if (kept != resolution) averaging.emplace(averaging_);
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < rows * parts; ++i) {
    const Index row = i / parts;
    make_sample(form, stored[static_cast<std::size_t>(row)], {i % parts, parts},
                x.data.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)));
  }
  averaging.reset();
  from.rows->done();
}

// Boxes of rows that are in memory.
void SampleStore::cut_boxes(const Extent& resolution, std::span<const std::int64_t> ids, Span x) {
  Level& from = level(kept_resolution(resolution));
  const Index width = sample(resolution).per_sample(), each = boxes(resolution), bytes = size_of(from.form.type);
  const Extent factor = kept_resolution(resolution) == resolution ? original : resolution;
#pragma omp parallel
  {
    std::vector<std::byte> cut;
#pragma omp for schedule(static)
    for (Index i = 0; i < std::ssize(ids); ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      const Box box = at_original(box_of(resolution, key_, id), factor);
      SampleRecipe form = from.form;
      form.factor = factor;
      form.stored.spatial = box.count;
      if (!settings_.sample_units.empty()) form.map = &settings_.sample_units;
      cut.resize(static_cast<std::size_t>(form.stored.per_sample() * bytes));
      cut_box(from.form.stored, bytes, from.rows->buffer_of(id / each), box, cut.data());
      make_sample(form, cut.data(), {},
                  x.subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width)));
    }
  }
}

void SampleStore::gather_labels(const Extent& resolution, std::span<const std::int64_t> ids, Span targets) const {
  const Index width = target(resolution).per_sample(), rows = std::ssize(ids), each = boxes(resolution);
  MRMF_CHECK(std::ssize(targets) == rows * width, "targets do not fit the ids");
  if (!labels_) return;
#pragma omp parallel for schedule(static) if (rows * width > part_elements)
  for (Index i = 0; i < rows; ++i) {
    const Span target = targets.subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    if (settings_.patch.any())
      labels_->write(resolution, id / each - owned_.first, box_of(resolution, key_, id), target);
    else
      labels_->write(resolution, id - owned_.first, target);
    apply(settings_.label_units, 0, target);
  }
}

}  // namespace mrmf
