#include "io/rows/duplicate_rows.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

/// What rows are made of, all but how far along they are: for each piece its name, its array, how many rows further it
/// is there than the first piece, and its part of the row.
using Make = std::vector<std::tuple<std::size_t, ObjectIdentity, Index, std::vector<Index>>>;

/// Rows of one make, by how far along the first piece's array they are.
struct Stretch {
  Index start = 0, count = 0;
  RowLocation location;
};

/// The origins of one name, along rows that continue.
class Cursor {
 public:
  explicit Cursor(const std::vector<RowOrigin>& origins) : origins_(origins) {}

  /// Those of a row that is not before the last one asked for: of overlapping ones (parts of a row) all.
  const std::vector<const RowOrigin*>& at(Index row) {
    const auto is_past = [&](const RowOrigin* origin) { return origin->first + origin->count <= row; };
    std::erase_if(here_, is_past);
    for (; next_ < origins_.size() && origins_[next_].first <= row; ++next_)
      if (!is_past(&origins_[next_])) here_.push_back(&origins_[next_]);
    return here_;
  }

 private:
  const std::vector<RowOrigin>& origins_;
  std::size_t next_ = 0;
  std::vector<const RowOrigin*> here_;
};

// What the rows from `row` on are made of, and where.
std::pair<Make, Index> make_of(std::vector<Cursor>& names, Index row) {
  Make make;
  Index start = 0;
  for (std::size_t name = 0; name < names.size(); ++name)
    for (const RowOrigin* const origin : names[name].at(row)) {
      const Index at = origin->row + row - origin->first;
      if (make.empty()) start = at;
      make.emplace_back(name, origin->array, at - start, origin->part);
    }
  return {std::move(make), start};
}

bool has_all_names(const Make& make, std::size_t names) {
  std::set<std::size_t> there;
  for (const auto& piece : make) there.insert(std::get<0>(piece));
  return there.size() == names;
}

using Makes = std::map<Make, std::vector<Stretch>>;

void add_file(const FileRows& file, std::size_t number, Makes& makes) {
  if (file.names.size() == 1) {  // the usual case, without a search for each stretch
    const std::vector<RowOrigin>& origins = file.names.front();
    const bool apart = std::ranges::adjacent_find(origins, [](const RowOrigin& a, const RowOrigin& b) {
                         return a.first + a.count > b.first;
                       }) == origins.end();
    if (apart) {
      for (const RowOrigin& origin : origins)
        makes[{{0, origin.array, 0, origin.part}}].push_back(
            {origin.row, origin.count, {number, origin.first, origin.count}});
      return;
    }
  }
  std::set<Index> cuts{0, file.rows};
  for (const std::vector<RowOrigin>& origins : file.names)
    for (const RowOrigin& origin : origins) cuts.insert(origin.first), cuts.insert(origin.first + origin.count);
  std::vector<Cursor> cursors(file.names.begin(), file.names.end());
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    const Index count = *std::next(cut) - *cut;
    auto [make, start] = make_of(cursors, *cut);
    if (has_all_names(make, file.names.size())) makes[std::move(make)].push_back({start, count, {number, *cut, count}});
  }
}

}  // namespace

std::optional<SameRows> find_same_rows(const std::vector<FileRows>& files) {
  Makes makes;
  for (std::size_t i = 0; i < files.size(); ++i) add_file(files[i], i, makes);
  std::optional<SameRows> first;
  const auto order = [](const RowLocation& location) { return std::pair(location.file, location.first); };
  for (auto& [make, stretches] : makes) {
    std::ranges::sort(stretches, {}, &Stretch::start);
    const Stretch* longest = nullptr;  // the one of those before that ends last
    for (const Stretch& next : stretches) {
      if (longest != nullptr && next.start < longest->start + longest->count) {
        const Index count = std::min(next.start + next.count, longest->start + longest->count) - next.start;
        RowLocation one{longest->location.file, longest->location.first + next.start - longest->start, count};
        RowLocation other{next.location.file, next.location.first, count};
        if (order(other) < order(one)) std::swap(one, other);
        if (!first || order(other) < order(first->again)) first = {one, other};
      }
      if (longest == nullptr || next.start + next.count > longest->start + longest->count) longest = &next;
    }
  }
  return first;
}

namespace {

/// From where to where along the first piece's array.
struct Reach {
  Index begin = 0, end = 0;
};

/// The rows of stretches that are taken, ascending, joined where they touch.
std::vector<Reach> taken_spans(const std::vector<Stretch>& stretches, const std::vector<std::vector<bool>>& taken) {
  std::vector<Reach> spans, joined;
  for (const Stretch& stretch : stretches)
    for (Index i = 0; i < stretch.count; ++i) {
      if (!taken[stretch.location.file][static_cast<std::size_t>(stretch.location.first + i)]) continue;
      const Index at = stretch.start + i;
      if (!spans.empty() && spans.back().end == at)
        ++spans.back().end;
      else
        spans.push_back({at, at + 1});
    }
  std::ranges::sort(spans, {}, &Reach::begin);
  for (const Reach& span : spans)
    if (!joined.empty() && span.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, span.end);
    else
      joined.push_back(span);
  return joined;
}

}  // namespace

std::vector<RowLocation> rows_also_in(const std::vector<FileRows>& here, const std::vector<FileRows>& there,
                                      const std::vector<std::vector<bool>>& taken) {
  Makes own, others;
  for (std::size_t i = 0; i < here.size(); ++i) add_file(here[i], i, own);
  for (std::size_t i = 0; i < there.size(); ++i) add_file(there[i], i, others);
  std::vector<RowLocation> common;
  for (const auto& [make, stretches] : own) {
    const auto other = others.find(make);
    if (other == others.end()) continue;
    const std::vector<Reach> spans = taken_spans(other->second, taken);
    for (const Stretch& stretch : stretches) {
      const Index end = stretch.start + stretch.count;
      auto span = std::ranges::upper_bound(spans, stretch.start, {}, &Reach::end);
      for (; span != spans.end() && span->begin < end; ++span) {
        const Index first = std::max(span->begin, stretch.start), last = std::min(span->end, end);
        common.push_back({stretch.location.file, stretch.location.first + first - stretch.start, last - first});
      }
    }
  }
  return common;
}

namespace {

/// A file of one of the data sets.
struct Listed {
  const FoundDataset& found;
  std::size_t file;
  Subset use;
  const DatasetSpec& spec() const { return found.spec; }
  const std::string& path() const { return spec().files[file]; }
  bool elsewhere() const { return std::ranges::binary_search(found.shape.elsewhere, static_cast<Index>(file)); }
};

FileRows rows_in(const Listed& listed) {
  const auto open = RowSources(listed.spec(), listed.found.shape, listed.spec().sample_names()).open(listed.file);
  FileRows rows{open->front()->shape().front(), {}};
  for (const auto& source : *open) rows.names.push_back(source->origins());
  return rows;
}

/// The rows of files that may have some in common with others. Rows that lie in their own file, which is named once,
/// are another's only where that one's lie there, too.
std::vector<FileRows> rows_of(const std::vector<Listed>& all) {
  std::vector<FileIdentity> identities;
  std::map<FileIdentity, int> named;
  for (const Listed& listed : all) {
    identities.push_back(file_identity(listed.path()).value_or(FileIdentity{}));
    ++named[identities.back()];
  }
  std::vector<FileRows> rows(all.size());
  std::vector<bool> known(all.size());
  std::set<FileIdentity> reached;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].elsewhere() && named[identities[i]] == 1) continue;
    rows[i] = rows_in(all[i]);
    known[i] = true;
    for (const std::vector<RowOrigin>& origins : rows[i].names)
      for (const RowOrigin& origin : origins) reached.insert(origin.array.first);
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!known[i] && reached.contains(identities[i])) rows[i] = rows_in(all[i]);
  return rows;
}

// The parts of a split share out the rows of one data set.
bool are_parts(const DatasetSpec& train, const DatasetSpec& validation) {
  return train.choice.part != Subset::all && train.files == validation.files && train.groups == validation.groups &&
         train.sample_names() == validation.sample_names();
}

std::string names_text(const DatasetSpec& spec) {
  std::string text;
  for (const std::string& name : spec.sample_names()) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// "rows 0 to 39 of 'x' in d/part0.h5", "'x' in d/sim0.h5", "'x' of group 'sim_0' in d.h5"
std::string location_text(const Listed& listed, const RowLocation& location) {
  const std::string name = names_text(listed.spec()), in = " in " + listed.path();
  if (listed.spec().rows == RowsBy::files) return name + in;
  if (listed.spec().rows == RowsBy::groups)
    return name + " of group '" +
           listed.found.shape.groups.at(listed.file).names->at(static_cast<std::size_t>(location.first)) + "'" + in;
  const std::string rows = location.count == 1 ? "row " + std::to_string(location.first)
                                               : "rows " + std::to_string(location.first) + " to " +
                                                     std::to_string(location.first + location.count - 1);
  return rows + " of " + name + in;
}

// What is done with one row, or with several.
std::string use_text(Subset use, bool several) {
  if (use == Subset::train) return several ? "are trained on" : "is trained on";
  return std::string(use == Subset::validation ? "validate" : "test") + (several ? "" : "s");
}

[[noreturn]] void refuse(const Listed& once, const RowLocation& location, const Listed& again,
                         const RowLocation& other) {
  const bool several = again.spec().rows == RowsBy::axis && other.count > 1;
  const std::string same = location_text(again, other) + (several ? " are" : " is") + " the same as " +
                           location_text(once, location) + ", and ";
  if (again.use == Subset::all)
    throw DataError(same + "would be taken twice; name them once, or add --duplicates allow");
  const std::string instead = ", or set data.duplicates = \"allow\"";
  if (once.use == again.use) throw DataError(same + "both " + use_text(again.use, true) + "; name them once" + instead);
  throw DataError(location_text(again, other) + " " + use_text(again.use, several) + ", and " +
                  use_text(once.use, several) + " as " + location_text(once, location) + ": " +
                  (several ? "these are the same rows" : "this is the same row") + ", so the " +
                  (again.use == Subset::test ? "scores" : "loss") +
                  " will not show how the model does on data it has not seen; name others for " +
                  (again.use == Subset::test ? "the test" : "validation") + ", or let data.split choose" + instead);
}

}  // namespace

void require_distinct_rows(const std::vector<UsedDataset>& datasets, Comm& comm) {
  collective_try_on_root(comm, [&] {
    std::vector<Listed> all;
    for (std::size_t d = 0; d < datasets.size(); ++d)
      if (d == 0 || !are_parts(datasets.front().found.spec, datasets[d].found.spec))
        for (std::size_t i = 0; i < datasets[d].found.spec.files.size(); ++i)
          all.push_back({datasets[d].found, i, datasets[d].use});
    const std::optional<SameRows> same = find_same_rows(rows_of(all));
    if (same) refuse(all[same->once.file], same->once, all[same->again.file], same->again);
  });
}

namespace {

bool have_same_rows(const DatasetSpec& one, const DatasetSpec& other) {
  return one.files == other.files && one.rows == other.rows && one.groups == other.groups &&
         one.sample_names() == other.sample_names();
}

/// Which rows of each file are samples.
std::vector<std::vector<bool>> samples_in_files(const DatasetShape& shape) {
  const StoredRows stored(shape);
  std::vector<std::vector<bool>> taken;
  for (std::size_t i = 0; i < shape.file_samples.size(); ++i)
    taken.emplace_back(static_cast<std::size_t>(stored.rows_of_file(i)));
  stored.for_each_run({0, shape.samples}, [&](const RowRun& run) {
    for (Index row = run.rows.first; row < run.rows.first + run.rows.count; ++row)
      taken[run.file][static_cast<std::size_t>(row)] = true;
  });
  return taken;
}

/// The rows of two data sets' files, where some may be the same.
std::pair<std::vector<FileRows>, std::vector<FileRows>> rows_of(const FoundDataset& here, const FoundDataset& there) {
  std::vector<Listed> all;
  for (const FoundDataset* found : {&here, &there})
    for (std::size_t i = 0; i < found->spec.files.size(); ++i) all.push_back({*found, i, Subset::train});
  std::vector<FileRows> rows = rows_of(all);
  const auto middle = rows.begin() + std::ssize(here.spec.files);
  return {{rows.begin(), middle}, {middle, rows.end()}};
}

}  // namespace

Index count_common_samples(const FoundDataset& here, const FoundDataset& there, Comm& comm) {
  Index common = 0;
  collective_try(comm, [&] {
    if (!comm.root()) return;
    const std::vector<std::vector<bool>> own = samples_in_files(here.shape), taken = samples_in_files(there.shape);
    std::vector<std::vector<bool>> same = own;
    for (std::vector<bool>& file : same) std::fill(file.begin(), file.end(), false);
    if (have_same_rows(here.spec, there.spec)) {
      same = taken;
    } else {
      const auto [rows, others] = rows_of(here, there);
      for (const RowLocation& location : rows_also_in(rows, others, taken))
        std::fill_n(same[location.file].begin() + location.first, location.count, true);
    }
    for (std::size_t file = 0; file < own.size(); ++file)
      for (std::size_t row = 0; row < std::min(own[file].size(), same[file].size()); ++row)
        common += own[file][row] && same[file][row] ? 1 : 0;
  });
  comm.broadcast(std::span(&common, 1), 0);
  return common;
}

}  // namespace mrmf
