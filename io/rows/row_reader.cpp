#include "io/rows/row_source_and_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "io/files/input_file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/rows.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr Index long_run = Index{1} << 16;          // bytes that are worth a call of their own
constexpr Index short_read = Index{1} << 20;        // bytes of short runs, what lies between them included
constexpr Index unpacked_at_once = Index{1} << 17;  // bytes of packed numbers, with the result less than a core's cache

std::string way_text(const h5::Storage& storage, bool whole) {
  if (storage.offset) return "contiguous";
  if (storage.elsewhere) return "read from other files by HDF5";
  if (storage.chunk.empty()) return storage.contiguous ? "contiguous, converted by HDF5" : "compact";
  const Index rows = storage.chunk.front();
  const std::string chunks = storage.filtered ? "compressed" : "chunked";
  if (whole) return chunks;
  return chunks + " (" + std::to_string(rows) + (rows == 1 ? " row" : " rows") + " a chunk)";
}

/// The same along one axis after the other.
std::byte* copy_box(const std::vector<Index>& shape, Index element_bytes, const RowBox& box, std::size_t axis,
                    const std::byte* from, std::byte* to) {
  const Index inner = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 2, shape.end(), element_bytes,
                                      std::multiplies<>());
  from += box.first[axis] * inner;
  if (axis + 1 == box.count.size()) return std::copy_n(from, box.count[axis] * inner, to);
  for (Index i = 0; i < box.count[axis]; ++i) to = copy_box(shape, element_bytes, box, axis + 1, from + i * inner, to);
  return to;
}

}  // namespace

std::byte* copy_box(const std::vector<Index>& shape, Index element_bytes, const RowBox& box, const std::byte* row,
                    std::byte* to) {
  return copy_box(shape, element_bytes, box, 0, row, to);
}

struct RowReader::State {
  std::shared_ptr<const DataFile> file;
  std::unique_ptr<h5::Rows> rows;
  std::unique_ptr<InputFile> plain;  // set when the bytes are read without the library
  Packing packing;
  std::vector<Index> shape;
  Index row = 0;     // elements of one
  Index stored = 0;  // bytes of an element in the file
  Index offset = 0;  // where the first element is in the file
  std::string what, units;
  NumberNames names;
  bool whole;
  ReadPath way;
  ChunkMemory chunk_memory;
  bool elsewhere = false;
  ObjectIdentity object;

  State(std::shared_ptr<const DataFile> of, const std::string& name, const RowsOpening& opening)
      : file(std::move(of)), whole(opening.whole) {
    rows = std::make_unique<h5::Rows>(file->path(), file->id(), name, opening);
    packing = rows->packing();
    shape = rows->shape();
    set_sizes();
    what = rows->what();
    units = rows->units();
    names = rows->number_names();
    chunk_memory = rows->storage().memory;
    elsewhere = rows->storage().elsewhere;
    object = rows->object();
    plain = rows->plain_file();
    way = {plain != nullptr, way_text(rows->storage(), whole)};
    if (!plain) return;
    offset = *rows->storage().offset;
    rows.reset();
    file.reset();
  }
  State(const std::string& path, const std::string& name, const PlainRows& known, std::unique_ptr<InputFile> open)
      : plain(std::move(open)),
        packing(known.form->packing),
        shape(known.form->shape),
        offset(known.offset),
        what(path + ": data set '" + name + "'"),
        units(known.form->units),
        names(known.form->names),
        whole(known.form->whole),
        way(known.form->way) {
    object = {known.state.file, known.address};
    set_sizes();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!file && !rows) return;  // nothing of the library's
    const h5::Lock lock;
    rows.reset();
    file.reset();
  }

  void set_sizes() {
    stored = size_of(packing.stored);
    row = std::accumulate(shape.begin() + 1, shape.end(), Index{1}, std::multiplies<>());
  }
  Index bytes() const { return size_of(packing.type()); }  // what an element takes in memory

  // Packed numbers are read a little at a time, and unpacked while they are in the processor's cache.
  void read_plain(Index first, Index count, std::byte* to) const {
    if (packing.plain()) return read_bytes(first * row * stored, count * row * stored, to);
    const Index end = (first + count) * row, part = unpacked_at_once / stored;
    const auto buffer = packing.in_place() ? nullptr : std::make_unique_for_overwrite<std::byte[]>(unpacked_at_once);
    for (Index at = first * row; at < end; at += part) {
      const Index elements = std::min(part, end - at);
      std::byte* const from = buffer ? buffer.get() : to;
      read_bytes(at * stored, elements * stored, from);
      packing.unpack(from, elements, to);
      to += elements * bytes();
    }
  }

  // Bytes of the data set from `start` on.
  void read_bytes(Index start, Index bytes, std::byte* to) const {
    for (Index done = 0; done < bytes;) {
      const Index left = std::min(bytes - done, kMostReadBytes);
      const ssize_t got = ::pread(plain->number(), to + done, static_cast<std::size_t>(left),
                                  static_cast<off_t>(offset + start + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        const std::string reason =
            got == 0 ? "the file ends there; was it cut since it was opened?" : std::string(std::strerror(errno));
        throw DataError(what + " cannot be read" +
                        (whole ? "" : " from row " + std::to_string((start + done) / (row * stored))) + ": " + reason);
      }
      done += got;
    }
  }

  void read_plain_box(Index number, const RowBox& box, std::byte* to) const {
    if (packing.plain()) return read_stored_box(number, box, to);
    const Index elements = std::accumulate(box.count.begin(), box.count.end(), Index{1}, std::multiplies<>());
    if (packing.in_place()) {
      read_stored_box(number, box, to);
      return packing.unpack(to, elements, to);
    }
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(elements * stored));
    read_stored_box(number, box, buffer.get());
    packing.unpack(buffer.get(), elements, to);
  }

  // A row's range along its first axis is one run of bytes, which is read as it is where that is the only cut. Of other
  // boxes, planes are read one by one, as far as the box reaches along the second axis, and lines picked from them;
  // short planes are read whole, several with one call.
  void read_stored_box(Index number, const RowBox& box, std::byte* to) const {
    const Index slice = row * stored / shape[1], bytes = box.count[0] * slice;
    const Index start = number * row * stored + box.first[0] * slice;
    bool one_run = true;
    for (std::size_t a = 1; a < box.count.size(); ++a) one_run = one_run && box.count[a] == shape[a + 1];
    if (one_run) return read_bytes(start, bytes, to);
    const Index line = slice / shape[2], span = box.count[1] * line;
    const Index planes = span >= long_run ? 1 : std::max<Index>(1, short_read / slice);
    std::vector<std::byte> read(static_cast<std::size_t>(planes == 1 ? span : planes * slice));
    RowBox within = box;
    within.first[0] = 0;
    if (planes == 1) within.first[1] = 0;
    for (Index i = 0; i < box.count[0]; i += planes) {
      within.count[0] = std::min(planes, box.count[0] - i);
      if (planes == 1)
        read_bytes(start + i * slice + box.first[1] * line, span, read.data());
      else
        read_bytes(start + i * slice, within.count[0] * slice, read.data());
      to = copy_box(shape, stored, within, read.data(), to);
    }
  }

  void read_box_by_library(Index number, const RowBox& box, std::byte* to) const {
    h5::ContiguousBox block{{number}, {1}, 1};
    for (std::size_t a = 0; a < box.count.size(); ++a) {
      block.first.push_back(box.first[a]);
      block.count.push_back(box.count[a]);
      block.elements *= box.count[a];
    }
    const h5::Lock lock;
    rows->read(block, to);
  }

  void read_by_library(Index first, Index count, std::byte* to) const {
    const h5::Lock lock;
    for (const h5::ContiguousBox& block : h5::blocks(shape, first, count, kMostReadBytes / std::max(stored, bytes()))) {
      rows->read(block, to);
      to += block.elements * bytes();
    }
  }
};

RowReader::RowReader(const std::string& path, const std::string& dataset, const RowsOpening& opening)
    : RowReader(std::make_shared<const DataFile>(path), dataset, opening) {}

RowReader::RowReader(std::shared_ptr<const DataFile> file, const std::string& dataset, const RowsOpening& opening) {
  const h5::Lock lock;
  state_ = std::make_unique<State>(std::move(file), dataset, opening);
}
RowReader::RowReader(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::optional<RowReader> RowReader::again(const std::string& path, const std::string& dataset, const PlainRows& known) {
  FileDescriptor open(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!open || file_state(open.number()) != known.state) return {};
  return RowReader(std::make_unique<State>(path, dataset, known, std::make_unique<InputFile>(std::move(open))));
}

RowReader::RowReader(RowReader&&) noexcept = default;
RowReader& RowReader::operator=(RowReader&&) noexcept = default;
RowReader::~RowReader() = default;

ElementType RowReader::type() const { return state_->packing.type(); }
const Packing& RowReader::packing() const { return state_->packing; }
const std::vector<Index>& RowReader::shape() const { return state_->shape; }
const std::string& RowReader::units() const { return state_->units; }
const NumberNames& RowReader::names() const { return state_->names; }
const std::string& RowReader::where() const { return state_->what; }
Index RowReader::row_bytes() const { return state_->row * state_->bytes(); }
ReadPath RowReader::way() const { return state_->way; }
ChunkMemory RowReader::chunk_memory() const { return state_->chunk_memory; }
bool RowReader::elsewhere() const { return state_->elsewhere; }
const ObjectIdentity& RowReader::object() const { return state_->object; }

std::optional<PlainRows> RowReader::plain() const {
  if (!state_->plain || state_->elsewhere) return {};
  const std::optional<FileState> state = file_state(state_->plain->number());
  if (!state) return {};
  PlainRows::Form form{state_->packing, state_->shape, state_->units, state_->way, state_->whole, state_->names};
  return PlainRows{std::make_shared<const PlainRows::Form>(std::move(form)), *state, state_->offset,
                   state_->object.second};
}

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

void RowReader::read(Index first, Index count, const RowBox& box, std::byte* to) const {
  MRMF_CHECK(first >= 0 && count >= 0 && first + count <= state_->shape[0], state_->what + ": rows outside of it");
  MRMF_CHECK(box.count.size() + 1 == state_->shape.size(), state_->what + ": a box of other axes");
  const Index bytes = std::accumulate(box.count.begin(), box.count.end(), state_->bytes(), std::multiplies<>());
  for (Index row = first; row < first + count; ++row, to += bytes)
    if (state_->plain)
      state_->read_plain_box(row, box, to);
    else
      state_->read_box_by_library(row, box, to);
}

namespace {

constexpr std::size_t kMostForms = 16;  // that are compared with a new one

}  // namespace

bool RowHeaderCache::is(const Known& known, const Name& name) {
  return known.array == name.array && known.packing == name.packing && known.rows.form->whole == name.whole;
}

std::optional<PlainRows> RowHeaderCache::find(const Name& name) const {
  const std::scoped_lock lock(mutex_);
  const auto file = files_.find(name.path);
  if (file == files_.end()) return {};
  const auto known = std::ranges::find_if(file->second, [&](const Known& one) { return is(one, name); });
  if (known == file->second.end()) return {};
  return known->rows;
}

void RowHeaderCache::keep(const Name& name, PlainRows rows) {
  const std::scoped_lock lock(mutex_);
  const auto same = std::ranges::find_if(forms_, [&](const auto& form) { return *form == *rows.form; });
  if (same != forms_.end()) {
    rows.form = *same;
  } else {
    if (forms_.size() == kMostForms) forms_.erase(forms_.begin());
    forms_.push_back(rows.form);
  }
  std::vector<Known>& file = files_[name.path];
  std::erase_if(file, [&](const Known& one) { return is(one, name); });
  file.push_back({name.array, name.packing, std::move(rows)});
}

}  // namespace mrmf
