#include "io/sample_store.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/agreement.hpp"
#include "io/coarsen.hpp"

namespace mrmf {
namespace {

constexpr Extent original_resolution{1, 1, 1};

/// Index of the first value that is NaN or infinite; values.size() when there is none.
Index first_not_finite(ConstSpan values) {
  auto first = static_cast<Index>(values.size());
#pragma omp parallel for reduction(min : first) schedule(static)
  for (Index i = 0; i < static_cast<Index>(values.size()); ++i)
    if (!std::isfinite(values[static_cast<std::size_t>(i)])) first = std::min(first, i);
  return first;
}

/// Where a part of one data set goes.
struct Part {
  const Hdf5File& file;
  const std::string& path;
  const std::string& dataset;
  Range rows;  ///< of this file
  Span out;
};

void read_finite(const Part& part) {
  part.file.read_rows(part.dataset, part.rows.first, part.rows.count, part.out);
  const Index bad = first_not_finite(part.out);
  if (bad == static_cast<Index>(part.out.size())) return;
  const Index row = part.rows.first + bad / (static_cast<Index>(part.out.size()) / part.rows.count);
  const bool nan = std::isnan(part.out[static_cast<std::size_t>(bad)]);
  throw DataError(part.path + ": data set '" + part.dataset + "', row " + std::to_string(row) + " holds " +
                  (nan ? "NaN" : "an infinity") + "; remove or repair that sample");
}

/// The part of [first, first + count) that lies in `rows`, counted from `first`.
Range overlap(Range rows, Index first, Index count) {
  const Index begin = std::max(rows.first, first), end = std::min(rows.first + rows.count, first + count);
  return {begin - first, std::max<Index>(end - begin, 0)};
}

/// Turns the flat buffer of each (T, C) sample, read as (C, T), into channels-last; or back again.
enum class Turn { to_channels_last, back };
void reinterpret_samples(std::vector<float>& samples, const Shape& sample, Turn turn) {
  const Index width = sample.per_sample(), positions = product(sample.spatial), channels = sample.channels;
  const Index from_rows = turn == Turn::to_channels_last ? channels : positions, from_columns = width / from_rows;
#pragma omp parallel
  {
    std::vector<float> flat(static_cast<std::size_t>(width));
#pragma omp for schedule(static)
    for (Index n = 0; n < static_cast<Index>(samples.size()) / width; ++n) {
      float* values = samples.data() + n * width;
      std::copy_n(values, width, flat.data());
      for (Index r = 0; r < from_rows; ++r)
        for (Index c = 0; c < from_columns; ++c)
          values[c * from_rows + r] = flat[static_cast<std::size_t>(r * from_columns + c)];
    }
  }
}

}  // namespace

SampleStore::SampleStore(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Comm& comm)
    : shape_(shape), owned_(owned), layout_(spec.layout) {
  together(comm, [&] { load(spec); });
}

void SampleStore::load(const DatasetSpec& spec) {
  const Index width = shape_.sample.per_sample();
  MRMF_CHECK(shape_.file_samples.size() == spec.files.size(), "the shape is not of these files");
  original_.resize(static_cast<std::size_t>(owned_.count * width));
  labels_.resize(static_cast<std::size_t>(owned_.count * shape_.outputs));
  Index file_start = 0, done = 0;
  for (std::size_t i = 0; i < spec.files.size(); ++i) {
    const Range rows = overlap(owned_, file_start, shape_.file_samples[i]);
    file_start += shape_.file_samples[i];
    if (rows.count == 0) continue;
    const Hdf5File file = Hdf5File::open(spec.files[i], Comm::self());
    const auto slice = [&](std::vector<float>& all, Index per_row) {
      return Span(all).subspan(static_cast<std::size_t>(done * per_row),
                               static_cast<std::size_t>(rows.count * per_row));
    };
    read_finite({file, spec.files[i], spec.samples, rows, slice(original_, width)});
    if (shape_.outputs > 0) read_finite({file, spec.files[i], spec.labels, rows, slice(labels_, shape_.outputs)});
    done += rows.count;
  }
  MRMF_CHECK(done == owned_.count, "rows outside of the data set were asked for");
}

void SampleStore::require(const Extent& resolution) {
  const Shape small = sample(resolution);
  if (resolved_.contains(resolution)) return;
  view_original(resolution == original_resolution ? layout_ : SampleLayout::transpose);
  if (resolution == original_resolution) return;
  const std::vector<float>& fine = data(original_resolution);
  std::vector<float> coarse(static_cast<std::size_t>(owned_.count * small.per_sample()));
  coarsen(fine, shape_.sample, resolution, coarse);
  if (layout_ == SampleLayout::reinterpret) reinterpret_samples(coarse, small, Turn::to_channels_last);
  resolved_[resolution] = std::move(coarse);
}

// The original is kept once, as it was read or as the model sees it: averaging needs the one, gathering the other.
void SampleStore::view_original(SampleLayout layout) {
  if (layout == original_layout_) return;
  reinterpret_samples(original_, shape_.sample,
                      layout == SampleLayout::reinterpret ? Turn::to_channels_last : Turn::back);
  original_layout_ = layout;
}

void SampleStore::release(const Extent& resolution) {
  if (resolution == original_resolution) std::vector<float>().swap(original_);
  resolved_.erase(resolution);
}

Shape SampleStore::sample(const Extent& resolution) const { return coarse_shape(shape_.sample, resolution); }

const std::vector<float>& SampleStore::data(const Extent& resolution) const {
  const auto found = resolved_.find(resolution);
  const std::vector<float>& values = found == resolved_.end() ? original_ : found->second;
  const bool there = found != resolved_.end() || resolution == original_resolution;
  MRMF_CHECK(there && static_cast<Index>(values.size()) == owned_.count * sample(resolution).per_sample(),
             "this resolution was not required, or was released");
  return values;
}

void SampleStore::gather(const Extent& resolution, std::span<const std::int64_t> ids, Tensor x, Tensor targets) const {
  const Shape shape = sample(resolution);
  const std::vector<float>& samples = data(resolution);
  const Index width = shape.per_sample(), rows = static_cast<Index>(ids.size());
  MRMF_CHECK(static_cast<Index>(x.data.size()) == rows * width, "x does not fit the ids");
  MRMF_CHECK(static_cast<Index>(targets.data.size()) == rows * outputs(), "targets do not fit the ids");
  MRMF_CHECK(resolution != original_resolution || original_layout_ == layout_, "the original was not required");
  for (const std::int64_t id : ids)
    MRMF_CHECK(id >= owned_.first && id < owned_.first + owned_.count, "sample " + std::to_string(id) + " is not here");

#pragma omp parallel for schedule(static)
  for (Index i = 0; i < rows; ++i) {
    const Index at = ids[static_cast<std::size_t>(i)] - owned_.first;
    std::copy_n(samples.data() + at * width, width, x.data.data() + i * width);
    std::copy_n(labels_.data() + at * outputs(), outputs(), targets.data.data() + i * outputs());
  }
}

}  // namespace mrmf
