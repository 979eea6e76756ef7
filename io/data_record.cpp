#include "io/data_record.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "io/input_file.hpp"
#include "io/row_digest.hpp"
#include "io/row_source.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr Index most_files = 64;              // that are looked into
constexpr Index most_bytes = Index{1} << 26;  // most bytes of all files' data sets of one name
constexpr Index most_groups = 4096;           // most groups of a file, each of which must be opened

std::vector<std::string> names_of(const DatasetSpec& spec) {
  std::vector<std::string> names = spec.sample_names();
  std::ranges::copy(spec.label_names(), std::back_inserter(names));
  if (!spec.choice.column.empty()) names.push_back(spec.choice.column);
  return names;
}

/// So many of `count` files, evenly: the first and the last among them.
std::vector<Index> chosen_files(Index count) {
  const Index wanted = std::min(count, most_files);
  std::vector<Index> chosen;
  for (Index i = 0; i < wanted; ++i) chosen.push_back(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1));
  return chosen;
}

h5::Glance glance_at_each(Index files, RowForm form) {
  const Index share = most_bytes / files, places = files > 8 ? 4 : 8;
  h5::Glance glance{share, places, std::min(share / places, Index{1} << 18)};
  if (form == RowForm::groups) glance.rows = most_groups / files;
  return glance;
}

void record_arrays(const UsedFile& used, Index position, const h5::Glance& glance, std::vector<ArrayRecord>& arrays) {
  DatasetSpec spec;
  spec.files = {used.path};
  spec.name_samples(used.datasets);
  spec.rows = used.rows;
  spec.groups = used.groups;
  spec.packing = used.packing;
  spec.missing = MissingRule::fill;  // whoever reads the rows says what is missing
  const auto open = RowSources(spec, nullptr, used.datasets, {.words = true}).open(0);
  for (std::size_t i = 0; i < used.datasets.size(); ++i) {
    const RowSource& rows = *(*open)[i];
    h5::Digest digest;
    digest.add(rows.holds_words() ? "words" : to_string(rows.type()));
    if (rows.holds_words())
      for (const std::string& word : rows.words(0, rows.shape().front())) digest.add(word);
    else
      add_numbers(digest, rows, glance);
    arrays.push_back({position, used.datasets[i], rows.shape(), digest.sum()});
  }
}

}  // namespace

std::vector<UsedFile> used_files(const DatasetSpec& train, const DatasetSpec& validation) {
  const bool shared = train.files == validation.files && train.groups == validation.groups;
  std::vector<std::string> names = names_of(train), more = names_of(validation);
  std::vector<UsedFile> files;
  if (shared) std::ranges::copy(more, std::back_inserter(names));
  for (std::vector<std::string>* list : {&names, &more}) {
    std::ranges::sort(*list);
    list->erase(std::ranges::unique(*list).begin(), list->end());
  }
  for (const std::string& path : train.files) files.push_back({path, names, train.rows, train.groups, train.packing});
  for (const std::string& path : validation.files)
    if (!shared) files.push_back({path, more, validation.rows, validation.groups, validation.packing});
  return files;
}

DataRecord record_of(const std::vector<UsedFile>& files) {
  DataRecord record;
  for (const UsedFile& file : files) {
    struct stat facts {};
    if (::stat(file.path.c_str(), &facts) != 0) InputFile reason(file.path);
    record.bytes.push_back(facts.st_size);
    record.modified.push_back(facts.st_mtim.tv_sec);
  }
  const std::vector<Index> chosen = chosen_files(std::ssize(files));
  for (const Index i : chosen)
    record_arrays(files[static_cast<std::size_t>(i)], i, glance_at_each(std::ssize(chosen), files.front().rows),
                  record.arrays);
  return record;
}

}  // namespace mrmf
