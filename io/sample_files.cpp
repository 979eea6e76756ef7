#include "io/sample_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "io/mask.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

/// The rows in both ranges.
Range common(Range a, Range b) {
  const Index begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {begin, std::max<Index>(end - begin, 0)};
}

}  // namespace

Index files_with(const DatasetShape& shape, Range rows) {
  Index files = 0, first = 0;
  for (const Index samples : shape.file_samples) {
    if (common({first, samples}, rows).count > 0) ++files;
    first += samples;
  }
  return files;
}

SampleFiles::SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached)
    : type_(shape.type),
      sample_(shape.read_sample()),
      whole_(shape.sample.spatial),
      block_(shape.block),
      row_elements_(sample_.per_sample()),
      row_bytes_(row_elements_ * size_of(shape.type)),
      order_(parse_axes(spec.axes)),
      stored_(shape),
      not_finite_(spec.not_finite),
      mask_(spec.mask) {
  MRMF_CHECK(shape.file_samples.size() == spec.files.size(), "the shape is not of these files");
  const Index names = 1 + std::ssize(spec.more_samples);
  const Index of_source = most_cached / std::max<Index>(1, files_with(shape, owned) * names);
  Range samples;
  for (std::size_t i = 0; i < spec.files.size(); ++i) {
    samples = {samples.first + samples.count, shape.file_samples[i]};
    if (common(samples, owned).count == 0) continue;
    File file{spec.files[i], open_sources(spec.files[i], spec, of_source, stored_.rows_of_file(i))};
    if (spec.missing == MissingRule::refuse)
      for (const Source& source : file.sources) source.reader.require_written();  // as this rank sees it
    files_.emplace(i, std::move(file));
  }
}

std::vector<SampleFiles::Source> SampleFiles::open_sources(const std::string& path, const DatasetSpec& spec,
                                                           Index most_cached, Index rows) const {
  std::vector<Source> sources;
  const std::vector<std::string> names = spec.sample_names();
  Index channels = 0;
  for (const std::string& name : names) {
    RowReader reader(path, name, most_cached, spec.packing);
    const Index elements = reader.row_bytes() / size_of(reader.type()), positions = product(whole_);
    const Index own = elements / positions;
    if (reader.shape().front() != rows || own * positions != elements)
      throw DataError(path + ": data set '" + name +
                      "' changed while it was being opened; start again when nothing writes to it");
    std::optional<RowBox> box = box_of(reader);
    sources.push_back({name, std::move(reader), own, channels, std::move(box)});
    channels += own;
  }
  if (channels + (mask_ ? 1 : 0) != sample_.channels)
    throw DataError(path + ": data set '" + names.front() +
                    "' changed while it was being opened; start again when nothing writes to it");
  return sources;
}

// The block in the axes of the file, where the channels have a place of their own or none.
std::optional<RowBox> SampleFiles::box_of(const RowReader& reader) const {
  if (!block_) return {};
  const auto axes = reader.shape().size() - 1;
  const std::size_t channel =
      order_.given() ? (order_.channel < 0 ? axes : static_cast<std::size_t>(order_.channel)) : axes - 1;
  RowBox box;
  std::size_t spatial = 3 - static_cast<std::size_t>(sample_.axes);
  for (std::size_t a = 0; a < axes; ++a) {
    box.first.push_back(a == channel ? 0 : block_->first.at(spatial));
    box.count.push_back(a == channel ? reader.shape()[a + 1] : block_->count.at(spatial));
    spatial += a == channel ? 0 : 1;
  }
  return box;
}

ReadingWay SampleFiles::way() const {
  ReadingWay way;
  for (const auto& [number, file] : files_)
    for (const Source& source : file.sources) {
      const ReadingWay one = source.reader.way();
      way.direct = (way.text.empty() || way.direct) && one.direct;
      if (way.text.find(one.text) == std::string::npos) way.text += (way.text.empty() ? "" : ", ") + one.text;
    }
  return way;
}

void SampleFiles::read(Range samples, std::byte* to, Scratch& scratch) const {
  stored_.for_each_run(samples, [&](const RowRun& run) {
    const auto file = files_.find(run.file);
    MRMF_CHECK(file != files_.end(), "rows that are not owned were asked for");
    read_run(file->second, run.rows, to, scratch);
    to += run.rows.count * row_bytes_;
  });
}

void SampleFiles::join_sources(const File& file, Range rows, std::byte* to, Scratch& scratch) const {
  const Index positions = rows.count * product(sample_.spatial), bytes = size_of(type_);
  for (const Source& source : file.sources) {
    const auto width = static_cast<std::size_t>(source.channels * bytes);
    scratch.source.resize(static_cast<std::size_t>(positions) * width);
    read_source(source, rows, scratch.source.data(), scratch);
    for (Index p = 0; p < positions; ++p)
      std::memcpy(to + (p * sample_.channels + source.first_channel) * bytes,
                  scratch.source.data() + static_cast<std::size_t>(p) * width, width);
  }
}

void SampleFiles::read_run(const File& file, Range rows, std::byte* to, Scratch& scratch) const {
  if (file.sources.size() == 1 && !mask_)
    read_source(file.sources.front(), rows, to, scratch);
  else
    join_sources(file, rows, to, scratch);
  if (mask_) write_mask(type_, to, rows.count * product(sample_.spatial), sample_.channels);
  const auto first_bad = not_finite_ == NotFiniteRule::fill ? first_infinite : first_not_finite;
  const Index bad = first_bad(type_, to, rows.count * row_elements_);
  if (bad == rows.count * row_elements_) return;
  const Index channel = bad % sample_.channels;
  const auto source =
      std::ranges::find_if(file.sources, [&](const Source& one) { return channel < one.first_channel + one.channels; });
  throw DataError(
      not_finite_text({file.path, source->dataset, rows.first + bad / row_elements_}, source->reader, not_finite_));
}

void SampleFiles::read_source(const Source& source, Range rows, std::byte* to, Scratch& scratch) const {
  if (!order_.moves()) return read_converted(source, rows, to, scratch);
  Shape own = sample_;
  own.channels = source.channels;
  scratch.unordered.resize(static_cast<std::size_t>(rows.count * own.per_sample() * size_of(type_)));
  read_converted(source, rows, scratch.unordered.data(), scratch);
  move_channels_last(channel_box(own, order_), rows.count, size_of(type_), scratch.unordered.data(), to);
}

void SampleFiles::read_as_stored(const Source& source, Range rows, std::byte* to) const {
  if (source.box)
    source.reader.read(rows.first, rows.count, *source.box, to);
  else
    source.reader.read(rows.first, rows.count, to);
}

void SampleFiles::read_converted(const Source& source, Range rows, std::byte* to, Scratch& scratch) const {
  const ElementType type = source.reader.type();
  if (type == type_) return read_as_stored(source, rows, to);
  const Index elements = rows.count * product(sample_.spatial) * source.channels;
  scratch.as_stored.resize(static_cast<std::size_t>(elements * size_of(type)));
  read_as_stored(source, rows, scratch.as_stored.data());
  to_float32(type, scratch.as_stored.data(), {reinterpret_cast<float*>(to), static_cast<std::size_t>(elements)});
}

}  // namespace mrmf
