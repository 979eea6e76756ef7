#include "io/rows/duplicate_rows.hpp"
#include "io/rows/row_names_and_origins.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "io/files/input_file.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"

namespace mrmf::h5 {
namespace {

constexpr std::size_t most_runs = std::size_t{1} << 22;  // most runs of one selection; one of more is not followed

/// Consecutive rows.
struct Run {
  Index first = 0, count = 0;
};

/// Rows that a selection takes, in its order, and what it takes of each.
struct RowSelection {
  std::vector<Run> runs;
  std::vector<Index> part;  ///< start, step, number of blocks and their size along each further axis; empty: all
  Index of_row = 1;         ///< elements
};

std::vector<Index> sizes_of(const std::vector<hsize_t>& sizes) { return {sizes.begin(), sizes.end()}; }

Index product(const std::vector<Index>& sizes, std::size_t from) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end(), Index{1}, std::multiplies<>());
}

RowSelection all_rows(const std::vector<Index>& shape) { return {{{0, shape.front()}}, {}, product(shape, 1)}; }

enum class Blocks { joined, apart };  // those that touch

/// A regular selection's sizes along one axis. Unlimited counts and blocks go to the end of `size`.
struct Axis {
  Index start = 0, step = 1, count = 0, block = 1;

  Axis(hsize_t from, hsize_t stride, hsize_t number, hsize_t length, Index size, Blocks blocks = Blocks::joined)
      : start(static_cast<Index>(from)), step(static_cast<Index>(stride)) {
    const Index left = std::max<Index>(size - start, 0);
    block = length == H5S_UNLIMITED ? left : static_cast<Index>(length);
    count = number == H5S_UNLIMITED ? (left + step - 1) / std::max<Index>(step, 1) : static_cast<Index>(number);
    if (count > 1 && step == block && blocks == Blocks::joined) block *= count, count = 1;
    if (count == 1) step = block;
  }
  Index elements() const { return count * block; }
  bool whole(Index size) const { return start == 0 && count == 1 && block == size; }
};

/// A regular selection of a data set of this shape.
std::optional<RowSelection> regular(hid_t space, const std::vector<Index>& shape, Blocks blocks) {
  std::vector<hsize_t> start(shape.size()), step(shape.size()), count(shape.size()), block(shape.size());
  if (H5Sget_regular_hyperslab(space, start.data(), step.data(), count.data(), block.data()) < 0) return {};
  RowSelection found;
  bool whole = true;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    const Axis axis(start[i], step[i], count[i], block[i], shape[i]);
    for (const Index number : {axis.start, axis.step, axis.count, axis.block}) found.part.push_back(number);
    found.of_row *= axis.elements();
    whole = whole && axis.whole(shape[i]);
  }
  if (whole) found.part.clear();
  const Axis rows(start[0], step[0], count[0], block[0], shape[0], blocks);
  if (rows.count > static_cast<Index>(most_runs)) return {};
  for (Index i = 0; i < rows.count; ++i) {
    const Index first = rows.start + i * rows.step, end = std::min(first + rows.block, shape[0]);
    if (end > first) found.runs.push_back({first, end - first});
  }
  return found;
}

/// A union of boxes of rows that all take the same of each row.
std::optional<RowSelection> irregular(hid_t space, const std::vector<Index>& shape) {
  const hssize_t count = H5Sget_select_hyper_nblocks(space);
  const std::size_t axes = shape.size();
  if (count < 1 || static_cast<std::size_t>(count) > most_runs) return {};
  std::vector<hsize_t> corners(static_cast<std::size_t>(count) * axes * 2);
  if (H5Sget_select_hyper_blocklist(space, 0, static_cast<hsize_t>(count), corners.data()) < 0) return {};
  RowSelection found;
  std::vector<Index> part;
  bool whole = true;
  for (std::size_t box = 0; box < static_cast<std::size_t>(count); ++box) {
    const std::vector<Index> low = sizes_of({corners.begin() + static_cast<std::ptrdiff_t>(2 * axes * box),
                                             corners.begin() + static_cast<std::ptrdiff_t>(2 * axes * box + axes)});
    const std::vector<Index> high = sizes_of({corners.begin() + static_cast<std::ptrdiff_t>(2 * axes * box + axes),
                                              corners.begin() + static_cast<std::ptrdiff_t>(2 * axes * (box + 1))});
    std::vector<Index> here;
    Index of_row = 1;
    for (std::size_t i = 1; i < axes; ++i) {
      const Axis axis(static_cast<hsize_t>(low[i]), 1, 1, static_cast<hsize_t>(high[i] - low[i] + 1), shape[i]);
      for (const Index number : {axis.start, axis.step, axis.count, axis.block}) here.push_back(number);
      of_row *= axis.elements();
      whole = whole && axis.whole(shape[i]);
    }
    if (box > 0 && here != part) return {};
    if (!found.runs.empty() && low[0] < found.runs.back().first + found.runs.back().count) return {};
    part = here;
    found.of_row = of_row;
    found.runs.push_back({low[0], high[0] - low[0] + 1});
  }
  if (!whole) found.part = part;
  return found;
}

/// The rows of a selection in a data set of this shape; nothing where it does not take the same of every row.
std::optional<RowSelection> rows_of(hid_t space, const std::vector<Index>& shape, Blocks blocks = Blocks::joined) {
  if (shape.empty()) return {};
  const H5S_sel_type kind = H5Sget_select_type(space);
  if (kind == H5S_SEL_ALL) return all_rows(shape);
  if (kind != H5S_SEL_HYPERSLABS || static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)) != shape.size())
    return {};
  return H5Sis_regular_hyperslab(space) > 0 ? regular(space, shape, blocks) : irregular(space, shape);
}

/// Where all rows of a source lie.
struct SourceOrigins {
  std::vector<RowOrigin> all;  ///< ascending
  Index longest = 0;           ///< rows of one
  bool whole = true;           ///< none is a part of rows

  explicit SourceOrigins(std::vector<RowOrigin> origins) : all(std::move(origins)) {
    for (const RowOrigin& origin : all) {
      longest = std::max(longest, origin.count);
      whole = whole && origin.part.empty();
    }
  }
  /// The first that may have this row, or a later one.
  auto from(Index row) const { return std::ranges::upper_bound(all, row - longest, {}, &RowOrigin::first); }
};

/// One mapping of a virtual data set.
struct Mapping {
  const RowSelection& to;        ///< rows of the virtual data set
  const RowSelection& from;      ///< rows of the source
  const SourceOrigins& origins;  ///< origins of all the source's rows
  ObjectIdentity source;
};

/// Follows virtual data sets to their sources.
class Follower {
 public:
  std::vector<RowOrigin> origins(const Dataset& dataset) {
    const Properties creation(H5Dget_create_plist(dataset.get()));
    const std::vector<Index> shape = shape_of(Space(H5Dget_space(dataset.get())).get(), {});
    if (shape.empty() || shape.front() == 0) return {};
    if (H5Pget_layout(creation.get()) == H5D_VIRTUAL)
      if (auto found = virtual_origins(dataset, creation, shape)) return *found;
    if (auto found = external_origins(dataset, creation, shape)) return *found;
    return {{0, shape.front(), identity_of(dataset.get()), 0}};
  }

 private:
  /// Rows that lie one after the other in files of raw bytes, to which several data sets may lead. Nothing where a row
  /// lies in two of them.
  static std::optional<std::vector<RowOrigin>> external_origins(const Dataset& dataset, const Properties& creation,
                                                                const std::vector<Index>& shape) {
    const std::vector<ExternalBytes> pieces = external_bytes(file_of(dataset.get()), creation);
    const Type type(H5Dget_type(dataset.get()));
    const Index of_row = product(shape, 1) * static_cast<Index>(H5Tget_size(type.get()));
    if (pieces.empty() || of_row < 1) return {};
    std::vector<RowOrigin> all;
    Index first = 0;
    for (const ExternalBytes& piece : pieces) {
      const Index left = shape.front() - first;
      const auto bytes = piece.count == H5F_UNLIMITED ? left * of_row : static_cast<Index>(piece.count);
      const Index rows = std::min(left, bytes / of_row);
      const auto file = file_identity(piece.file);
      if (!file || (rows < left && bytes % of_row != 0)) return {};
      const ObjectIdentity raw{*file, std::numeric_limits<std::uint64_t>::max()};  // no address of an object
      if (rows > 0) all.push_back({first, rows, raw, piece.offset / of_row, {of_row, piece.offset % of_row}});
      first += rows;
    }
    return all;
  }

  /// Nothing where it puts rows together in a way that is not followed.
  std::optional<std::vector<RowOrigin>> virtual_origins(const Dataset& dataset, const Properties& creation,
                                                        const std::vector<Index>& shape) {
    std::size_t count = 0;
    H5Pget_virtual_count(creation.get(), &count);
    std::vector<RowOrigin> all;
    for (std::size_t i = 0; i < count; ++i) {
      const SourceName name = source_name(creation, i);
      const Space selected(H5Pget_virtual_vspace(creation.get(), i)), taken(H5Pget_virtual_srcspace(creation.get(), i));
      const std::optional<RowSelection> to =
          rows_of(selected.get(), shape, name.numbered() ? Blocks::apart : Blocks::joined);
      if (!to) return {};
      if (!name.numbered()) {
        if (!add(dataset, name, *to, taken, all)) return {};
        continue;
      }
      // "a-%b.h5": one source for each block of rows, as many as exist.
      for (std::size_t number = 0; number < to->runs.size(); ++number) {
        const RowSelection block{{to->runs[number]}, to->part, to->of_row};
        if (!add(dataset, name.with_number(number), block, taken, all)) return {};
      }
    }
    std::ranges::stable_sort(all, {}, &RowOrigin::first);
    return all;
  }

  /// Adds the origins of rows that one source gives; false where they are not followed. A source that is not there has
  /// none.
  bool add(const Dataset& dataset, const SourceName& name, const RowSelection& to, const Space& taken,
           std::vector<RowOrigin>& all) {
    const std::shared_ptr<const Source> source = open(file_of(dataset.get()), name);
    if (source == nullptr) return true;
    const std::optional<RowSelection> from = rows_of(taken.get(), source->shape);
    if (!from || from->of_row != to.of_row) return false;
    map_rows({to, *from, known_.at(source->identity), source->identity}, all);
    return all.size() <= most_runs;
  }

  struct Source {
    std::string path;
    SourceName name;
    std::vector<Index> shape;
    ObjectIdentity identity;
  };

  /// Null when it is not there. Looked at once for mappings that follow each other.
  std::shared_ptr<const Source> open(const std::string& path, const SourceName& name) {
    if (last_ != nullptr && last_->path == path && last_->name.file == name.file && last_->name.dataset == name.dataset)
      return last_;
    const OpenSource file = open_source(path, name.file, path + ": a virtual data set");
    if (!file.file) return nullptr;
    const Target target = follow(file.file.get(), name.dataset);
    if (!is_dataset(target)) return nullptr;
    const Dataset dataset(H5Dopen2(target.file, target.name.c_str(), H5P_DEFAULT));
    if (!dataset) return nullptr;
    auto source = std::make_shared<const Source>(
        Source{path, name, shape_of(Space(H5Dget_space(dataset.get())).get(), {}), identity_of(dataset.get())});
    if (!known_.contains(source->identity)) known_.emplace(source->identity, origins(dataset));
    last_ = source;
    return source;
  }

  /// Row by row, in the order of both selections.
  static void map_rows(const Mapping& mapping, std::vector<RowOrigin>& all) {
    auto from = mapping.from.runs.begin();
    Index used = 0;  // rows of that run that are mapped
    for (const Run& to : mapping.to.runs)
      for (Index done = 0; done < to.count && from != mapping.from.runs.end();) {
        const Index count = std::min(to.count - done, from->count - used);
        map_run({to.first + done, count}, from->first + used, mapping, all);
        done += count;
        used += count;
        if (used == from->count) ++from, used = 0;
      }
  }

  /// Rows `to` are the source's from `row` on.
  static void map_run(const Run& to, Index row, const Mapping& mapping, std::vector<RowOrigin>& all) {
    std::vector<Index> part = mapping.to.part;
    part.push_back(-1);  // between the two
    part.insert(part.end(), mapping.from.part.begin(), mapping.from.part.end());
    if (part.size() == 1) part.clear();
    if (!part.empty() && !mapping.origins.whole) {  // a part of a part: no further
      all.push_back({to.first, to.count, mapping.source, row, part});
      return;
    }
    for (auto next = mapping.origins.from(row); next != mapping.origins.all.end() && next->first < row + to.count;
         ++next) {
      const RowOrigin& origin = *next;
      const Index first = std::max(origin.first, row), end = std::min(origin.first + origin.count, row + to.count);
      if (first >= end) continue;
      all.push_back({to.first + first - row, end - first, origin.array, origin.row + first - origin.first,
                     part.empty() ? origin.part : part});
    }
  }

  std::map<ObjectIdentity, SourceOrigins> known_;
  std::shared_ptr<const Source> last_;
};

}  // namespace

namespace {

std::vector<RowOrigin> as_one_row(std::vector<RowOrigin> origins) {
  for (RowOrigin& origin : origins) {
    for (const Index number : {origin.first, origin.count, origin.row}) origin.part.push_back(number);
    origin = {0, 1, origin.array, 0, std::move(origin.part)};
  }
  return origins;
}

}  // namespace

std::vector<RowOrigin> row_origins(const Dataset& dataset, bool whole) {
  std::vector<RowOrigin> origins = Follower().origins(dataset);
  return whole ? as_one_row(std::move(origins)) : origins;
}

std::vector<RowOrigin> row_origins(const ObjectIdentity& array, Index rows, bool whole) {
  std::vector<RowOrigin> origins{{0, rows, array, 0}};
  return whole ? as_one_row(std::move(origins)) : origins;
}

}  // namespace mrmf::h5
