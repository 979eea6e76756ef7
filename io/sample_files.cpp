#include "io/sample_files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "io/hdf5_library.hpp"
#include "io/hdf5_rows.hpp"
#include "io/input_file.hpp"

namespace mrmf {
namespace {

constexpr Index largest_read = Index{1} << 30;  // below what one read call may return

/// The library would keep up to 32 MiB of chunk indices per file, but the part for a row is used only once.
void limit_index_memory(const h5::Properties& access) {
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access.get(), &cache) < 0) return;
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = std::size_t{1} << 20;
  cache.max_size = std::size_t{1} << 22;
  H5Pset_mdc_config(access.get(), &cache);
}

h5::File open_file(const std::string& path) {
  h5::silence();
  const InputFile regular(path);  // throws if it is not
  const h5::Properties access = h5::file_access();
  limit_index_memory(access);
  h5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) h5::check_readable(path);
  h5::require(bool(file), path + ": cannot be opened");
  return file;
}

std::string way_text(const h5::Storage& storage) {
  if (storage.chunk.empty()) return storage.offset ? "contiguous" : "contiguous, converted by HDF5";
  const Index rows = storage.chunk.front();
  return std::string(storage.filtered ? "compressed" : "chunked") + " (" + std::to_string(rows) +
         (rows == 1 ? " row" : " rows") + " a chunk)";
}

}  // namespace

struct RowReader::State {
  h5::File file;
  std::unique_ptr<h5::Rows> rows;
  std::unique_ptr<InputFile> plain;  // set when the bytes are read without the library
  ElementType type;
  std::vector<Index> shape;
  Index row_bytes = 0, offset = 0;
  std::string what;
  ReadingWay way;
  ChunkMemory chunk_memory;

  State(const std::string& path, const std::string& name, Index most_cached) : file(open_file(path)) {
    rows = std::make_unique<h5::Rows>(path, file.get(), name, most_cached);
    type = rows->type();
    shape = rows->shape();
    row_bytes = std::accumulate(shape.begin() + 1, shape.end(), size_of(type), std::multiplies<>());
    what = rows->what();
    chunk_memory = rows->storage().memory;
    way = {rows->storage().offset.has_value(), way_text(rows->storage())};
    if (!way.direct) return;
    offset = *rows->storage().offset;
    rows.reset();
    file.close();
    plain = std::make_unique<InputFile>(path);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    const h5::Lock lock;
    rows.reset();
    file.close();
  }

  void read_plain(Index first, Index count, std::byte* to) const {
    const Index bytes = count * row_bytes;
    for (Index done = 0; done < bytes;) {
      const Index left = std::min(bytes - done, largest_read);
      const ssize_t got = ::pread(plain->number(), to + done, static_cast<std::size_t>(left),
                                  static_cast<off_t>(offset + first * row_bytes + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        const std::string reason =
            got == 0 ? "the file ends there; was it cut since it was opened?" : std::string(std::strerror(errno));
        throw DataError(what + " cannot be read from row " + std::to_string(first + done / row_bytes) + ": " + reason);
      }
      done += got;
    }
  }

  void read_by_library(Index first, Index count, std::byte* to) const {
    const h5::Lock lock;
    for (const h5::Block& block : h5::blocks(shape, first, count, largest_read / size_of(type))) {
      rows->read(block, to);
      to += block.elements * size_of(type);
    }
  }
};

RowReader::RowReader(const std::string& path, const std::string& dataset, Index most_cached) {
  const h5::Lock lock;
  state_ = std::make_unique<State>(path, dataset, most_cached);
}
RowReader::RowReader(RowReader&&) noexcept = default;
RowReader& RowReader::operator=(RowReader&&) noexcept = default;
RowReader::~RowReader() = default;

ElementType RowReader::type() const { return state_->type; }
const std::vector<Index>& RowReader::shape() const { return state_->shape; }
Index RowReader::row_bytes() const { return state_->row_bytes; }
ReadingWay RowReader::way() const { return state_->way; }
ChunkMemory RowReader::chunk_memory() const { return state_->chunk_memory; }

void RowReader::require_written() const {
  const h5::Lock lock;
  if (state_->rows) state_->rows->require_written();  // otherwise it is one run of bytes, all written
}

void RowReader::read(Index first, Index count, std::byte* to) const {
  MRMF_CHECK(first >= 0 && count >= 0 && first + count <= state_->shape[0], state_->what + ": rows outside of it");
  if (state_->plain)
    state_->read_plain(first, count, to);
  else
    state_->read_by_library(first, count, to);
}

namespace {

/// The rows in both ranges.
Range common(Range a, Range b) {
  const Index begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {begin, std::max<Index>(end - begin, 0)};
}

}  // namespace

std::string not_finite_text(const RowPlace& place, float value) {
  return place.path + ": data set '" + place.dataset + "', row " + std::to_string(place.row) + " holds " +
         (std::isnan(value) ? "NaN" : "an infinity") +
         "; remove or repair that sample, or leave all such out with data.not_finite = \"skip\"";
}

Index files_with(const DatasetShape& shape, Range rows) {
  Index files = 0, first = 0;
  for (const Index samples : shape.file_samples) {
    if (common({first, samples}, rows).count > 0) ++files;
    first += samples;
  }
  return files;
}

SampleFiles::SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached)
    : dataset_(spec.samples),
      type_(shape.type),
      row_elements_(shape.sample.per_sample()),
      row_bytes_(row_elements_ * size_of(shape.type)),
      box_(channel_box(shape.sample, parse_axes(spec.axes))),
      moves_channels_(parse_axes(spec.axes).moves()),
      stored_(shape) {
  MRMF_CHECK(shape.file_samples.size() == spec.files.size(), "the shape is not of these files");
  const Index of_file = most_cached / std::max<Index>(1, files_with(shape, owned));
  Range samples;
  for (std::size_t i = 0; i < spec.files.size(); ++i) {
    samples = {samples.first + samples.count, shape.file_samples[i]};
    if (common(samples, owned).count == 0) continue;
    File file{spec.files[i], RowReader(spec.files[i], spec.samples, of_file)};
    const bool same = file.reader.shape().front() == stored_.rows_of_file(i) &&
                      file.reader.row_bytes() == row_elements_ * size_of(file.reader.type());
    if (!same)
      throw DataError(spec.files[i] + ": data set '" + spec.samples +
                      "' changed while it was being opened; start again when nothing writes to it");
    if (spec.missing == MissingRule::refuse) file.reader.require_written();  // as this rank sees it
    files_.emplace(i, std::move(file));
  }
}

ReadingWay SampleFiles::way() const {
  ReadingWay way;
  for (const auto& [number, file] : files_) {
    const ReadingWay one = file.reader.way();
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

void SampleFiles::read_run(const File& file, Range rows, std::byte* to, Scratch& scratch) const {
  if (moves_channels_) {
    scratch.unordered.resize(static_cast<std::size_t>(rows.count * row_bytes_));
    read_converted(file, rows, scratch.unordered.data(), scratch);
    move_channels_last(box_, rows.count, size_of(type_), scratch.unordered.data(), to);
  } else {
    read_converted(file, rows, to, scratch);
  }
  const Index bad = first_not_finite(type_, to, rows.count * row_elements_);
  if (bad == rows.count * row_elements_) return;
  float value = 0;
  to_float32(type_, to + bad * size_of(type_), {&value, 1});
  throw DataError(not_finite_text({file.path, dataset_, rows.first + bad / row_elements_}, value));
}

void SampleFiles::read_converted(const File& file, Range rows, std::byte* to, Scratch& scratch) const {
  if (file.reader.type() == type_) {
    file.reader.read(rows.first, rows.count, to);
    return;
  }
  scratch.as_stored.resize(static_cast<std::size_t>(rows.count * file.reader.row_bytes()));
  file.reader.read(rows.first, rows.count, scratch.as_stored.data());
  to_float32(file.reader.type(), scratch.as_stored.data(),
             {reinterpret_cast<float*>(to), static_cast<std::size_t>(rows.count * row_elements_)});
}

}  // namespace mrmf
