#include "io/rows/sample_files.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/rows/not_finite.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

/// The rows in both ranges.
Range common(Range a, Range b) {
  const Index begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {begin, std::max<Index>(end - begin, 0)};
}

/// Bytes of unpacked chunks in each open data set.
Index cached_by_each(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most) {
  const Index sources = std::ssize(spec.sample_names());
  return most / std::max<Index>(1, open_files(shape, owned, sources) * sources);
}

}  // namespace

Index open_files(const DatasetShape& shape, Range rows, Index sources) {
  Index files = 0, first = 0;
  for (const Index samples : shape.file_samples) {
    if (common({first, samples}, rows).count > 0) ++files;
    first += samples;
  }
  return std::min(files, std::max<Index>(1, static_cast<Index>(most_open_files()) / sources));
}

SampleFiles::SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached)
    : type_(shape.type),
      sample_(shape.read_sample()),
      whole_(shape.sample.spatial),
      block_(shape.block),
      row_bytes_(sample_.per_sample() * size_of(shape.type)),
      order_(parse_axes(spec.axes)),
      stored_(shape),
      missing_(spec.missing),
      not_finite_(spec.not_finite),
      mask_(spec.mask),
      rows_(spec, &shape, spec.sample_names(), {0, cached_by_each(spec, shape, owned, most_cached)}),
      files_(static_cast<std::size_t>(open_files(shape, owned, std::ssize(spec.sample_names()))),
             [this](std::size_t number) { return open(number); }) {
  MRMF_CHECK(shape.file_samples.size() == spec.files.size(), "the shape is not of these files");
  Range samples;
  Index left = open_files(shape, owned, std::ssize(rows_.names()));  // others are opened when they are read
  for (std::size_t i = 0; i < spec.files.size() && left > 0; ++i) {
    samples = {samples.first + samples.count, shape.file_samples[i]};
    if (common(samples, owned).count == 0) continue;
    --left;
    for (const Source& source : files_.at(i)->sources) {
      const ReadPath& one = source.rows.way();
      way_.direct = (way_.text.empty() || way_.direct) && one.direct;
      if (way_.text.find(one.text) == std::string::npos) way_.text += (way_.text.empty() ? "" : ", ") + one.text;
    }
  }
}

std::shared_ptr<const SampleFiles::File> SampleFiles::open(std::size_t number) const {
  File file{rows_.open(number), {}};
  Index channels = 0;
  const auto require = [&](bool same) {
    if (!same)
      throw DataError(file.open->front()->where() +
                      " changed while it was being opened; start again when nothing writes to it");
  };
  for (const auto& rows : *file.open) {
    const Index elements = rows->row_bytes() / size_of(rows->type()), positions = product(whole_);
    const Index own = elements / positions;
    require(rows->shape().front() == stored_.rows_of_file(number) && own * positions == elements);
    if (missing_ == MissingRule::refuse) rows->require_written();  // as this rank sees it
    file.sources.push_back({*rows, own, channels});
    channels += own;
  }
  require(channels + (mask_ ? 1 : 0) == sample_.channels);
  return std::make_shared<const File>(std::move(file));
}

// Positions in the axes of the file, where the channels have a place of their own or none.
RowBox SampleFiles::box_of(const RowSource& rows, const Box& positions) const {
  const auto axes = rows.shape().size() - 1;
  const std::size_t channel =
      order_.given() ? (order_.channel < 0 ? axes : static_cast<std::size_t>(order_.channel)) : axes - 1;
  RowBox box;
  std::size_t spatial = 3 - static_cast<std::size_t>(sample_.axes);
  for (std::size_t a = 0; a < axes; ++a) {
    box.first.push_back(a == channel ? 0 : positions.first.at(spatial));
    box.count.push_back(a == channel ? rows.shape()[a + 1] : positions.count.at(spatial));
    spatial += a == channel ? 0 : 1;
  }
  return box;
}

void SampleFiles::read(Range samples, std::byte* to, Scratch& scratch) const {
  stored_.for_each_run(samples, [&](const RowRun& run) {
    read_run(*files_.at(run.file), {run.rows, sample_, block_}, to, scratch);
    to += run.rows.count * row_bytes_;
  });
}

void SampleFiles::read_box(Index sample, const Box& box, std::byte* to, Scratch& scratch) const {
  const RowRun run = stored_.at(sample);
  Shape part = sample_;
  part.spatial = box.count;
  read_run(*files_.at(run.file), {run.rows, part, box}, to, scratch);
}

void SampleFiles::join_sources(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  const Index positions = rows.positions(), bytes = size_of(type_);
  for (const Source& source : file.sources) {
    const auto width = static_cast<std::size_t>(source.channels * bytes);
    scratch.source.resize(static_cast<std::size_t>(positions) * width);
    read_source(source, rows, scratch.source.data(), scratch);
    for (Index p = 0; p < positions; ++p)
      std::memcpy(to + (p * sample_.channels + source.first_channel) * bytes,
                  scratch.source.data() + static_cast<std::size_t>(p) * width, width);
  }
}

void SampleFiles::read_run(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  if (file.sources.size() == 1 && !mask_)
    read_source(file.sources.front(), rows, to, scratch);
  else
    join_sources(file, rows, to, scratch);
  const Index width = rows.sample.per_sample(), elements = rows.range.count * width;
  if (mask_) write_mask(type_, to, rows.positions(), sample_.channels);
  const auto first_bad = not_finite_ == NotFiniteRule::fill ? first_infinite : first_not_finite;
  const Index bad = first_bad(type_, to, elements);
  if (bad == elements) return;
  const Index channel = bad % sample_.channels;
  const auto source =
      std::ranges::find_if(file.sources, [&](const Source& one) { return channel < one.first_channel + one.channels; });
  throw DataError(not_finite_text(source->rows, rows.range.first + bad / width, not_finite_));
}

void SampleFiles::read_source(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  if (!order_.moves()) return read_converted(source, rows, to, scratch);
  Shape own = rows.sample;
  own.channels = source.channels;
  scratch.unordered.resize(static_cast<std::size_t>(rows.positions() * own.channels * size_of(type_)));
  read_converted(source, rows, scratch.unordered.data(), scratch);
  move_channels_last(channel_box(own, order_), rows.range.count, size_of(type_), scratch.unordered.data(), to);
}

void SampleFiles::read_as_stored(const Source& source, const ReadPart& rows, std::byte* to) const {
  if (rows.box)
    source.rows.read(rows.range.first, rows.range.count, box_of(source.rows, *rows.box), to);
  else
    source.rows.read(rows.range.first, rows.range.count, to);
}

void SampleFiles::read_converted(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  const ElementType type = source.rows.type();
  if (type == type_) return read_as_stored(source, rows, to);
  const Index elements = rows.positions() * source.channels;
  scratch.as_stored.resize(static_cast<std::size_t>(elements * size_of(type)));
  read_as_stored(source, rows, scratch.as_stored.data());
  to_float32(type, scratch.as_stored.data(), {reinterpret_cast<float*>(to), static_cast<std::size_t>(elements)});
}

}  // namespace mrmf
