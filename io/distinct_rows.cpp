#include "io/distinct_rows.hpp"

#include <memory>
#include <utility>

#include "io/data_file.hpp"
#include "io/hdf5_library.hpp"
#include "io/hdf5_rows.hpp"
#include "io/row_origins.hpp"
#include "io/same_rows.hpp"
#include "io/sample_groups.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

/// A file of one of the data sets.
struct Listed {
  const DatasetSpec& spec;
  std::size_t file;
  bool validates;
  const std::string& path() const { return spec.files[file]; }
};

/// What of a file's rows tells them from others, and the groups that they are.
struct RowsFound {
  FileRows rows;
  RowGroups groups;
};

h5::Dataset open_array(const DataFile& file, const std::string& name) {
  return h5::open_dataset(file.path(), file.id(), name);
}

RowsFound rows_in(const Listed& listed) {
  const h5::Lock lock;
  const DataFile file(listed.path());
  RowsFound found;
  if (listed.spec.rows == RowForm::groups)
    found.groups.names = std::make_shared<const std::vector<std::string>>(groups_of(file, listed.spec));
  for (const std::string& name : listed.spec.sample_names()) {
    std::vector<RowOrigin>& origins = found.rows.names.emplace_back();
    if (listed.spec.rows == RowForm::axis) {
      const h5::Dataset dataset = open_array(file, name);
      found.rows.rows = h5::shape_of(h5::Space(H5Dget_space(dataset.get())).get(), {}).front();
      origins = h5::row_origins(dataset);
      continue;
    }
    const auto groups = found.groups.names ? *found.groups.names : std::vector<std::string>{""};
    found.rows.rows = std::ssize(groups);
    for (const std::string& group : groups)
      origins.push_back(
          {std::ssize(origins), 1, h5::identity_of(open_array(file, group.empty() ? name : group + "/" + name)), 0});
  }
  return found;
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

/// Some of the rows of a file.
struct Found {
  const Listed& listed;
  const RowsFound& rows;
  RowPlace place;
};

// "rows 0 to 39 of 'x' in d/part0.h5", "'x' in d/sim0.h5", "'x' of group 'sim_0' in d.h5"
std::string place_text(const Found& found) {
  const Listed& listed = found.listed;
  const RowPlace& place = found.place;
  const std::string name = names_text(listed.spec), in = " in " + listed.path();
  if (listed.spec.rows == RowForm::files) return name + in;
  if (listed.spec.rows == RowForm::groups)
    return name + " of group '" + (*found.rows.groups.names)[static_cast<std::size_t>(place.first)] + "'" + in;
  const std::string rows =
      place.count == 1 ? "row " + std::to_string(place.first)
                       : "rows " + std::to_string(place.first) + " to " + std::to_string(place.first + place.count - 1);
  return rows + " of " + name + in;
}

[[noreturn]] void refuse(const Found& once, const Found& again) {
  const std::string instead = ", or set data.duplicates = \"allow\"";
  if (once.listed.validates != again.listed.validates)
    throw DataError(place_text(again) + " validate, and are trained on as " + place_text(once) +
                    ": these are the same rows, so the loss will not show how the model does on data it has not seen; "
                    "name others for validation, or let data.split choose" +
                    instead);
  throw DataError(place_text(again) + " are the same as " + place_text(once) + ", and both " +
                  (again.listed.validates ? "validate" : "are trained on") + "; name them once" + instead);
}

}  // namespace

void require_distinct_rows(const DatasetSpec& train, const DatasetSpec& validation, Comm& comm) {
  collective_try(comm, [&] {
    if (!comm.root()) return;
    std::vector<Listed> all;
    for (std::size_t i = 0; i < train.files.size(); ++i) all.push_back({train, i, false});
    for (std::size_t i = 0; i < validation.files.size() && !are_parts(train, validation); ++i)
      all.push_back({validation, i, true});
    std::vector<RowsFound> found;
    std::vector<FileRows> rows;
    for (const Listed& listed : all) {
      found.push_back(rows_in(listed));
      rows.push_back(found.back().rows);
    }
    const std::optional<SameRows> same = find_same_rows(rows);
    const auto at = [&](const RowPlace& place) { return Found{all[place.file], found[place.file], place}; };
    if (same) refuse(at(same->once), at(same->again));
  });
}

}  // namespace mrmf
