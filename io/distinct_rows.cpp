#include "io/distinct_rows.hpp"

#include <utility>

#include "io/hdf5_library.hpp"
#include "io/hdf5_rows.hpp"
#include "io/row_origins.hpp"
#include "io/same_rows.hpp"
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

FileRows rows_in(const Listed& listed) {
  const h5::Lock lock;
  h5::silence();
  h5::check_readable(listed.path());
  const h5::File file = h5::open_to_read(listed.path());
  h5::require(bool(file), listed.path() + ": cannot be opened");
  FileRows found;
  for (const std::string& name : listed.spec.sample_names()) {
    const h5::Dataset dataset = h5::open_dataset(listed.path(), file.get(), name);
    found.rows = h5::shape_of(h5::Space(H5Dget_space(dataset.get())).get()).front();
    found.names.push_back(h5::row_origins(dataset));
  }
  return found;
}

// The parts of a split share out the rows of one data set.
bool are_parts(const DatasetSpec& train, const DatasetSpec& validation) {
  return train.choice.part != RowPart::all && train.files == validation.files &&
         train.sample_names() == validation.sample_names();
}

std::string names_text(const DatasetSpec& spec) {
  std::string text;
  for (const std::string& name : spec.sample_names()) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// "rows 0 to 39 of 'x' in d/part0.h5"
std::string place_text(const Listed& listed, const RowPlace& place) {
  const std::string rows =
      place.count == 1 ? "row " + std::to_string(place.first)
                       : "rows " + std::to_string(place.first) + " to " + std::to_string(place.first + place.count - 1);
  return rows + " of " + names_text(listed.spec) + " in " + listed.path();
}

[[noreturn]] void refuse(const Listed& once, const RowPlace& place, const Listed& again, const RowPlace& other) {
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

void require_distinct_rows(const DatasetSpec& train, const DatasetSpec& validation, Comm& comm) {
  collective_try(comm, [&] {
    if (!comm.root()) return;
    std::vector<Listed> all;
    for (std::size_t i = 0; i < train.files.size(); ++i) all.push_back({train, i, false});
    for (std::size_t i = 0; i < validation.files.size() && !are_parts(train, validation); ++i)
      all.push_back({validation, i, true});
    std::vector<FileRows> rows;
    for (const Listed& listed : all) rows.push_back(rows_in(listed));
    const std::optional<SameRows> same = find_same_rows(rows);
    if (same) refuse(all[same->once.file], same->once, all[same->again.file], same->again);
  });
}

}  // namespace mrmf
