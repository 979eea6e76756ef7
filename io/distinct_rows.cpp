#include "io/distinct_rows.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/file_identity.hpp"
#include "io/row_source.hpp"
#include "io/same_rows.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"
#include "mpi/root_try.hpp"

namespace mrmf {
namespace {

/// A file of one of the data sets.
struct Listed {
  const FoundDataset& found;
  std::size_t file;
  bool validates;
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
  return train.choice.part != RowPart::all && train.files == validation.files && train.groups == validation.groups &&
         train.sample_names() == validation.sample_names();
}

std::string names_text(const DatasetSpec& spec) {
  std::string text;
  for (const std::string& name : spec.sample_names()) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// "rows 0 to 39 of 'x' in d/part0.h5", "'x' in d/sim0.h5", "'x' of group 'sim_0' in d.h5"
std::string place_text(const Listed& listed, const RowLocation& place) {
  const std::string name = names_text(listed.spec()), in = " in " + listed.path();
  if (listed.spec().rows == RowForm::files) return name + in;
  if (listed.spec().rows == RowForm::groups)
    return name + " of group '" +
           listed.found.shape.groups.at(listed.file).names->at(static_cast<std::size_t>(place.first)) + "'" + in;
  const std::string rows =
      place.count == 1 ? "row " + std::to_string(place.first)
                       : "rows " + std::to_string(place.first) + " to " + std::to_string(place.first + place.count - 1);
  return rows + " of " + name + in;
}

[[noreturn]] void refuse(const Listed& once, const RowLocation& place, const Listed& again, const RowLocation& other) {
  const std::string instead = ", or set data.duplicates = \"allow\"";
  if (once.validates != again.validates)
    throw DataError(place_text(again, other) + " validate, and are trained on as " + place_text(once, place) +
                    ": these are the same rows, so the loss will not show how the model does on data it has not seen; "
                    "name others for validation, or let data.split choose" +
                    instead);
  throw DataError(place_text(again, other) + " are the same as " + place_text(once, place) + ", and both " +
                  (again.validates ? "validate" : "are trained on") + "; name them once" + instead);
}

}  // namespace

void require_distinct_rows(const FoundDataset& train, const FoundDataset& validation, Comm& comm) {
  collective_try_on_root(comm, [&] {
    std::vector<Listed> all;
    for (std::size_t i = 0; i < train.spec.files.size(); ++i) all.push_back({train, i, false});
    if (!are_parts(train.spec, validation.spec))
      for (std::size_t i = 0; i < validation.spec.files.size(); ++i) all.push_back({validation, i, true});
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
    for (std::size_t i = 0; i < found->spec.files.size(); ++i) all.push_back({*found, i, false});
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
      for (const RowLocation& place : rows_also_in(rows, others, taken))
        std::fill_n(same[place.file].begin() + place.first, place.count, true);
    }
    for (std::size_t file = 0; file < own.size(); ++file)
      for (std::size_t row = 0; row < std::min(own[file].size(), same[file].size()); ++row)
        common += own[file][row] && same[file][row] ? 1 : 0;
  });
  comm.broadcast(std::span(&common, 1), 0);
  return common;
}

}  // namespace mrmf
