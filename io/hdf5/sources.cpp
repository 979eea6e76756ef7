// Sources of a data set's rows in other files, and rows that were never written; declared in links.hpp.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"

namespace mrmf::h5 {
namespace {

namespace fs = std::filesystem;

template <typename Get>
std::string text_of(Get get) {
  const ssize_t length = get(nullptr, 0);
  std::string text(static_cast<std::size_t>(std::max<ssize_t>(length, 0)), '\0');
  if (length > 0) get(text.data(), text.size() + 1);
  return text;
}

/// Replaces "%b" and "%%" as printf would; so does the library.
std::string numbered_text(const std::string& text, hsize_t number) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'b')
      result += std::to_string(number);
    else
      result += text[i];
    if (next == 'b' || next == '%') ++i;
  }
  return result;
}

bool has_number(const std::string& text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '%') {
      if (text[i + 1] == 'b') return true;
      ++i;
    }
  return false;
}

}  // namespace

bool SourceName::numbered() const { return has_number(file) || has_number(dataset); }

SourceName SourceName::with_number(hsize_t number) const {
  return {numbered_text(file, number), numbered_text(dataset, number)};
}

SourceName source_name(const Properties& creation, std::size_t i) {
  SourceName name;
  name.file = text_of([&](char* to, std::size_t size) { return H5Pget_virtual_filename(creation.get(), i, to, size); });
  name.dataset =
      text_of([&](char* to, std::size_t size) { return H5Pget_virtual_dsetname(creation.get(), i, to, size); });
  return name.numbered() ? name : name.with_number(0);
}

OpenSource open_source(const std::string& path, const std::string& name, const std::string& from) {
  return open_first(name == "." ? std::vector{path} : candidate_paths(path, name, "HDF5_VDS_PREFIX"), file_access(),
                    from);
}

std::vector<ExternalBytes> external_bytes(const std::string& path, const Properties& creation) {
  const char* const variable = std::getenv("HDF5_EXTFILE_PREFIX");
  std::string prefix = variable == nullptr ? "" : variable;
  if (const std::string origin = "${ORIGIN}"; prefix.starts_with(origin))
    prefix = std::filesystem::absolute(path).parent_path().string() + prefix.substr(origin.size());
  std::vector<ExternalBytes> all;
  const int count = H5Pget_external_count(creation.get());
  for (int i = 0; i < count; ++i) {
    std::vector<char> name(4096);
    ExternalBytes bytes;
    require(H5Pget_external(creation.get(), static_cast<unsigned>(i), name.size(), name.data(), &bytes.offset,
                            &bytes.count) >= 0,
            path + ": its external files cannot be listed");
    name.back() = '\0';
    bytes.file = (std::filesystem::path(prefix) / name.data()).string();
    all.push_back(std::move(bytes));
  }
  return all;
}

namespace {

using Sizes = std::vector<hsize_t>;

constexpr std::size_t most_levels = 16;  // levels of virtual data sets made of virtual data sets

/// Identifies a data set, whatever its name.
using Identity = std::pair<FileIdentity, haddr_t>;

Identity identity(const std::string& path, hid_t dataset) {
  H5O_info_t object{};
  H5Oget_info2(dataset, &object, H5O_INFO_BASIC);
  return {file_identity(path).value_or(FileIdentity{}), object.addr};
}

Sizes extent_of(hid_t space) {
  Sizes sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return sizes;
}

bool empty(const Sizes& extent) { return std::ranges::find(extent, hsize_t{0}) != extent.end(); }

/// The first missing chunk, in the order of rows. Searched only when the number of chunks is too small.
std::optional<Gap> chunk_gap(const Dataset& dataset, const Properties& creation, const Sizes& extent) {
  Sizes chunk(H5S_MAX_RANK);
  chunk.resize(static_cast<std::size_t>(std::max(H5Pget_chunk(creation.get(), H5S_MAX_RANK, chunk.data()), 0)));
  if (chunk.size() != extent.size() || empty(chunk)) return Gap{0, "are in chunks that cannot be"};
  double expected = 1;
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    expected *= static_cast<double>((extent[axis] - 1) / chunk[axis] + 1);
  const Space all(H5Dget_space(dataset.get()));
  hsize_t there = 0;
  if (H5Dget_num_chunks(dataset.get(), all.get(), &there) < 0) return Gap{0, "cannot be looked up; " + last_error()};
  if (static_cast<double>(there) >= expected) return std::nullopt;
  Gap gap{0, "were never written (" + std::to_string(there) + " of " +
                 std::to_string(static_cast<std::uint64_t>(expected)) + " chunks are there)"};
  if (there == 0) return gap;
  for (Sizes at(extent.size(), 0);;) {
    unsigned filters = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    const bool known = H5Dget_chunk_info_by_coord(dataset.get(), at.data(), &filters, &address, &bytes) >= 0;
    if (!known || address == HADDR_UNDEF) {
      gap.row = static_cast<Index>(at[0]);
      return gap;
    }
    std::size_t axis = at.size() - 1;
    while ((at[axis] += chunk[axis]) >= extent[axis] && axis > 0) at[axis--] = 0;
    if (at[0] >= extent[0]) return gap;  // none found, but the counts differ: some chunk is missing
  }
}

/// The library looks for a file of raw bytes from the current folder on, and many lie beside the HDF5 file.
std::string missing_raw(const std::string& path, const std::string& raw, const std::string& what) {
  std::string unknown;
  const bool beside = is_regular((std::filesystem::path(path).parent_path() / raw).string(), what, unknown);
  return "come from " + raw +
         (beside ? ", which is beside the file and not in the current folder (set HDF5_EXTFILE_PREFIX='${ORIGIN}')"
                 : ", which is not there");
}

/// Checks the files of raw bytes beside the HDF5 file, in which the rows lie one after the other, and adds them to
/// `files`. The library reads zeros behind their end.
std::optional<Gap> external_gap(const std::string& path, const Dataset& dataset, const std::string& what,
                                const Properties& creation, std::set<std::string>& files) {
  const Sizes extent = extent_of(Space(H5Dget_space(dataset.get())).get());
  const hsize_t all = std::accumulate(extent.begin(), extent.end(), H5Tget_size(Type(H5Dget_type(dataset.get())).get()),
                                      std::multiplies<>());
  const hsize_t of_row = std::max<hsize_t>(1, extent.empty() ? all : all == 0 ? 1 : all / extent.front());
  hsize_t there = 0;  // bytes of the rows in the files so far
  for (const ExternalBytes& bytes : external_bytes(path, creation)) {
    if (there == all) break;  // for later growth
    files.insert(bytes.file);
    if (std::string why; !is_regular(bytes.file, what, why)) {
      const auto row = static_cast<Index>(there / of_row);
      if (!why.empty()) return Gap{row, "come from " + bytes.file + ", " + why, true};
      return Gap{row, missing_raw(path, bytes.file, what)};
    }
    std::error_code unknown;
    const auto size = static_cast<hsize_t>(std::filesystem::file_size(bytes.file, unknown));
    const auto begin = static_cast<hsize_t>(bytes.offset);
    const hsize_t here = unknown || size < begin ? 0 : size - begin, wanted = std::min(bytes.count, all - there);
    if (here < wanted)
      return Gap{static_cast<Index>((there + here) / of_row), "come from " + bytes.file + ", which is too short"};
    there += wanted;
  }
  return std::nullopt;
}

/// The box of a regular selection; counts and blocks may be H5S_UNLIMITED.
struct Slab {
  Sizes start, stride, count, block;

  explicit Slab(hid_t space) : start(extent_of(space)), stride(start), count(start), block(start) {
    const H5S_sel_type kind = H5Sget_select_type(space);
    regular = kind == H5S_SEL_HYPERSLABS && H5Sis_regular_hyperslab(space) > 0;
    if (regular)
      H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data());
    else if (kind == H5S_SEL_ALL)
      *this = whole(extent_of(space));
  }
  static Slab whole(const Sizes& extent) {
    const Sizes zeros(extent.size(), 0), ones(extent.size(), 1);
    return {zeros, ones, ones, extent, true};
  }
  std::optional<std::size_t> unlimited() const {
    for (std::size_t axis = 0; axis < start.size(); ++axis)
      if (count[axis] == H5S_UNLIMITED || block[axis] == H5S_UNLIMITED) return axis;
    return std::nullopt;
  }
  bool regular = false;

 private:
  Slab(Sizes first, Sizes step, Sizes times, Sizes size, bool is)
      : start(std::move(first)),
        stride(std::move(step)),
        count(std::move(times)),
        block(std::move(size)),
        regular(is) {}
};

/// Walks over a data set and its sources.
class Walk {
 public:
  /// Throws for sources that must not be opened. With `gaps`, returns the first gap; without, only follows the sources.
  std::optional<Gap> visit(const Dataset& dataset, const std::string& what, bool gaps) {
    const std::string path = file_of(dataset.get());
    const Properties creation(H5Dget_create_plist(dataset.get()));
    const H5D_layout_t layout = H5Pget_layout(creation.get());
    if (layout == H5D_VIRTUAL) return visit_virtual({path, dataset, what, gaps}, creation);
    if (H5Pget_external_count(creation.get()) > 0) {
      const std::optional<Gap> gap = external_gap(path, dataset, what, creation, files_);
      return gaps ? gap : std::nullopt;
    }
    if (!gaps) return std::nullopt;
    const Space space(H5Dget_space(dataset.get()));
    const Sizes extent = extent_of(space.get());
    if (H5Sget_simple_extent_npoints(space.get()) == 0) return std::nullopt;
    if (layout == H5D_CHUNKED && !extent.empty()) return chunk_gap(dataset, creation, extent);
    if (layout == H5D_CONTIGUOUS && H5Dget_offset(dataset.get()) == HADDR_UNDEF) return Gap{0, "were never written"};
    return std::nullopt;
  }

  /// All files that were followed.
  const std::set<std::string>& files() const { return files_; }

 private:
  struct Location {
    const std::string& path;
    const Dataset& dataset;
    const std::string& what;
    bool gaps;
  };
  struct Source {
    bool there = false;
    std::string why = "which is not there";
    bool wrong = false;  // something else is
    Sizes extent{};
    std::optional<Gap> gap{};
  };

  std::optional<Gap> visit_virtual(const Location& at, const Properties& creation) {
    const Identity self = identity(at.path, at.dataset.get());
    if (std::ranges::find(under_way_, self) != under_way_.end())
      throw DataError(at.what + " is virtual, and is among its own sources; make the file again");
    if (under_way_.size() == most_levels)
      throw DataError(at.what + " is virtual, of virtual sources, more than " + std::to_string(most_levels) +
                      " levels deep; copy it into a data set of its own");
    under_way_.push_back(self);
    std::size_t count = 0;
    H5Pget_virtual_count(creation.get(), &count);
    std::vector<std::pair<std::size_t, Source>> sources;
    std::optional<Gap> gap;
    for (std::size_t i = 0; i < count; ++i) {
      const SourceName name = source_name(creation, i);
      const Space selected(H5Pget_virtual_vspace(creation.get(), i));
      const Space taken(H5Pget_virtual_srcspace(creation.get(), i));
      Source source = name.numbered() ? visit_numbered(at, name) : visit_source(at, name);
      if (!at.gaps) continue;
      note(name, source, selected, taken, gap);
      sources.emplace_back(i, std::move(source));
    }
    under_way_.pop_back();
    if (!at.gaps) return std::nullopt;
    const std::optional<Gap> hole = uncovered(at, creation, sources);
    return !gap || (hole && hole->row < gap->row) ? hole : gap;
  }

  /// Keeps the gap with the lowest row.
  static void note(const SourceName& name, const Source& source, const Space& selected, const Space& taken,
                   std::optional<Gap>& gap) {
    if (name.numbered()) return;  // numbered sources end at the first missing one, and so do the rows
    const Index row = first_row(selected);
    const std::string from = "come from data set '" + name.dataset + "' of " + name.file + ", ";
    std::optional<Gap> found;
    if (!source.there)
      found = Gap{row, from + source.why, source.wrong};
    else if (beyond(selected, taken, source.extent))
      found = Gap{row, from + "which has fewer"};
    else if (source.gap)
      found =
          Gap{row, from + "where row " + std::to_string(source.gap->row) + " and maybe others " + source.gap->reason,
              source.gap->wrong};
    if (found && (!gap || found->row < gap->row)) gap = found;
  }

  static Index first_row(const Space& selected) {
    Slab slab(selected.get());
    if (slab.regular && !slab.start.empty()) return static_cast<Index>(slab.start.front());
    Sizes low(slab.start.size()), high(low);
    if (low.empty() || H5Sget_select_bounds(selected.get(), low.data(), high.data()) < 0) return 0;
    return static_cast<Index>(low.front());
  }

  /// Whether a source's extent does not fit the elements taken from it.
  static bool beyond(const Space& selected, const Space& taken, const Sizes& extent) {
    if (H5Sget_select_type(taken.get()) == H5S_SEL_ALL) {  // "all": the file does not say how many that was
      double there = 1;
      for (const hsize_t size : extent) there *= static_cast<double>(size);
      return there != static_cast<double>(H5Sget_select_npoints(selected.get()));
    }
    const Slab slab(taken.get());
    if (slab.unlimited() || slab.start.size() != extent.size()) return slab.start.size() != extent.size();
    Sizes low(extent.size()), high(low);
    if (H5Sget_select_bounds(taken.get(), low.data(), high.data()) < 0) return false;
    for (std::size_t axis = 0; axis < extent.size(); ++axis)
      if (high[axis] >= extent[axis]) return true;
    return false;
  }

  /// The first row for which no source is named.
  std::optional<Gap> uncovered(const Location& at, const Properties& creation,
                               const std::vector<std::pair<std::size_t, Source>>& sources) const {
    const Space left(H5Dget_space(at.dataset.get()));
    const Sizes extent = extent_of(left.get());
    if (extent.empty() || empty(extent)) return std::nullopt;
    const Sizes zeros(extent.size(), 0), ones(extent.size(), 1);
    H5Sselect_hyperslab(left.get(), H5S_SELECT_SET, zeros.data(), nullptr, ones.data(), extent.data());
    for (const auto& [i, source] : sources) {
      const Space selected(H5Pget_virtual_vspace(creation.get(), i));
      const Space taken(H5Pget_virtual_srcspace(creation.get(), i));
      take_away(left, selected, taken, source.extent);
      if (H5Sget_select_npoints(left.get()) == 0) return std::nullopt;
    }
    Sizes low(extent.size()), high(low);
    H5Sget_select_bounds(left.get(), low.data(), high.data());
    return Gap{static_cast<Index>(low.front()), "have no source"};
  }

  static void take_away(const Space& left, const Space& selected, const Space& taken, const Sizes& source) {
    Slab slab(selected.get());
    if (!slab.regular) {
      for (const Slab& box : boxes(selected)) subtract(left, box);
      return;
    }
    if (const auto axis = slab.unlimited()) {
      const Slab from(taken.get());
      const auto along = from.unlimited();
      // How much of the unlimited axis the source has. For numbered sources, extent.front() is their number.
      const hsize_t have = along && *along < source.size()
                               ? source[*along] - std::min(source[*along], from.start[*along])
                           : source.empty() ? 0
                                            : source.front();
      if (slab.block[*axis] == H5S_UNLIMITED)
        slab.block[*axis] = have;
      else
        slab.count[*axis] =
            along ? have / std::max<hsize_t>(
                               from.block[*along] == H5S_UNLIMITED ? slab.block[*axis] : from.block[*along], 1)
                  : have;
      if (slab.block[*axis] == 0 || slab.count[*axis] == 0) return;
    }
    subtract(left, slab);
  }

  static void subtract(const Space& left, const Slab& slab) {
    H5Sselect_hyperslab(left.get(), H5S_SELECT_NOTB, slab.start.data(), slab.stride.data(), slab.count.data(),
                        slab.block.data());
  }

  static std::vector<Slab> boxes(const Space& selected) {
    std::vector<Slab> all;
    const hssize_t count = H5Sget_select_hyper_nblocks(selected.get());
    const auto rank = static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(selected.get()), 0));
    if (count <= 0 || rank == 0) return all;
    Sizes corners(static_cast<std::size_t>(count) * rank * 2);
    H5Sget_select_hyper_blocklist(selected.get(), 0, static_cast<hsize_t>(count), corners.data());
    for (auto low = corners.begin(); low != corners.end(); low += static_cast<std::ptrdiff_t>(2 * rank)) {
      Sizes size(rank);
      for (std::size_t axis = 0; axis < rank; ++axis)
        size[axis] = low[static_cast<std::ptrdiff_t>(rank + axis)] - low[static_cast<std::ptrdiff_t>(axis)] + 1;
      Slab box = Slab::whole(size);
      std::copy_n(low, rank, box.start.begin());
      all.push_back(std::move(box));
    }
    return all;
  }

  /// "a-%b.h5": sources numbered from 0, as many as exist. The extent of the result is their number.
  Source visit_numbered(const Location& at, const SourceName& name) {
    Source all;
    all.there = true;
    all.extent = {0};
    for (hsize_t number = 0;; ++number) {
      const Source one = visit_source(at, name.with_number(number));
      if (!one.there) return all;
      if (one.gap && !all.gap) all.gap = one.gap;
      all.extent.front() = number + 1;
    }
  }

  const Source& visit_source(const Location& at, const SourceName& name) {
    const auto key = std::tuple(at.path, name.file, name.dataset, at.gaps);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    Source source;
    OpenSource open = open_source(at.path, name.file, at.what);
    if (!open.file) source.why = open.why, source.wrong = open.there;
    const Target target = open.file ? follow(open.file.get(), name.dataset) : Target{};
    if (is_dataset(target)) {
      files_.insert(open.path);
      files_.insert(target.files.begin(), target.files.end());
      require_descriptors(at.what);
      const Dataset dataset(H5Dopen2(target.file, target.name.c_str(), H5P_DEFAULT));
      if (dataset) {
        const std::string what = open.path + ": data set '" + name.dataset + "'";
        source.gap = visit(dataset, what, at.gaps);
        const Space space(H5Dget_space(dataset.get()));
        source.extent = extent_of(space.get());
        source.there = true;
      }
    }
    return known_.emplace(key, std::move(source)).first->second;
  }

  /// The library keeps all sources open. One that it could no longer open would read as fill values.
  void require_descriptors(const std::string& what) const {
    constexpr std::size_t others = 64;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || files_.size() + others <= limit.rlim_cur) return;
    throw DataError(what + " is virtual, and its sources are in more files than may be open at once (" +
                    std::to_string(limit.rlim_cur) + "); raise `ulimit -n`");
  }

  std::vector<Identity> under_way_;
  std::map<std::tuple<std::string, std::string, std::string, bool>, Source> known_;
  std::set<std::string> files_;
};

}  // namespace

void require_sound_sources(const Dataset& dataset, const std::string& what) { Walk().visit(dataset, what, false); }

std::optional<Gap> first_gap(const Dataset& dataset, const std::string& what) {
  return Walk().visit(dataset, what, true);
}

std::vector<std::string> files_of(const Dataset& dataset, const std::string& what) {
  Walk walk;
  walk.visit(dataset, what, false);
  std::vector<std::string> files{file_of(dataset.get())};
  files.insert(files.end(), walk.files().begin(), walk.files().end());
  return files;
}

namespace {

/// DataError for a dimension of netCDF without numbers. A variable of the same name that does not number the
/// dimension's positions is stored under another one.
void refuse_dimension(const Dataset& dataset, const std::string& what) {
  if (!is_dimension_scale(dataset, what) || H5Aexists(dataset.get(), "NAME") <= 0) return;
  const Attribute attribute(H5Aopen(dataset.get(), "NAME", H5P_DEFAULT));
  if (!text_of(attribute).starts_with("This is a netCDF dimension but not a netCDF variable")) return;
  std::string path(static_cast<std::size_t>(std::max<ssize_t>(H5Iget_name(dataset.get(), nullptr, 0), 0)), '\0');
  H5Iget_name(dataset.get(), path.data(), path.size() + 1);
  const std::string variable = path.insert(path.rfind('/') + 1, "_nc4_non_coord_");
  const bool there = H5Lexists(dataset.get(), variable.c_str(), H5P_DEFAULT) > 0;
  throw DataError(
      what + " is a dimension of netCDF, which holds no numbers; name " +
      (there ? "the variable of that name, which the file has as '" + variable.substr(1) + "'" : "a variable"));
}

}  // namespace

void require_written(const Dataset& dataset, const std::string& what) {
  const std::optional<Gap> gap = first_gap(dataset, what);
  if (!gap) return;
  refuse_dimension(dataset, what);
  throw DataError(what + ": row " + std::to_string(gap->row) + " and maybe others " + gap->reason +
                  (gap->wrong ? "; put the file that these rows are in where that one is"
                              : "; complete the file, or take the fill value for them with data.missing = \"fill\" (of "
                                "coarsen, evaluate and predict: --missing fill)"));
}

}  // namespace mrmf::h5
