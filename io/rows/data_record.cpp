#include "io/rows/data_record.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "io/files/input_file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf::h5 {
namespace {

constexpr Index read_at_once = Index{1} << 22;  // bytes

/// A consecutive piece of at most `most` bytes from the middle of a row.
ContiguousBox middle(const std::vector<Index>& shape, Index row, Index element_bytes, Index most) {
  ContiguousBox piece{std::vector<Index>(shape.size(), 0), shape, 0};
  piece.first[0] = row;
  piece.count[0] = 1;
  Index inner = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  for (std::size_t axis = 1; axis < shape.size() && inner > most; ++axis) {
    inner /= shape[axis];
    piece.count[axis] = std::clamp<Index>(most / std::max<Index>(inner, 1), 1, shape[axis]);
    piece.first[axis] = (shape[axis] - piece.count[axis]) / 2;
    inner *= piece.count[axis];
  }
  piece.elements = std::accumulate(piece.count.begin(), piece.count.end(), Index{1}, std::multiplies<>());
  return piece;
}

}  // namespace

void Digest::add(const void* bytes, std::size_t count) { sum_ = XXH3_64bits_withSeed(bytes, count, sum_); }

void Digest::add(const std::vector<Index>& numbers) {
  add(std::ssize(numbers));
  for (const Index number : numbers) add(number);
}

std::vector<ContiguousBox> glance_blocks(const std::vector<Index>& shape, Index element_bytes, const Glance& glance) {
  const Index count = shape.front();
  const Index row_bytes = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  if (count < 1 || row_bytes < 1) return {};
  if (count <= std::min(glance.whole / row_bytes, glance.rows))
    return blocks(shape, 0, count, read_at_once / element_bytes);
  const Index fit = std::min(glance.bytes / row_bytes, glance.rows);
  const Index run = std::clamp<Index>(fit, 1, std::max<Index>(count / glance.block_count, 1));
  std::vector<ContiguousBox> found;
  for (Index i = 0; i < glance.block_count; ++i) {
    const auto share = static_cast<double>(i) / static_cast<double>(std::max<Index>(glance.block_count - 1, 1));
    const auto first = static_cast<Index>(share * static_cast<double>(count - run));
    if (row_bytes > glance.bytes)
      found.push_back(middle(shape, first, element_bytes, glance.bytes));
    else
      for (ContiguousBox& block : blocks(shape, first, run, glance.bytes / element_bytes))
        found.push_back(std::move(block));
  }
  return found;
}

namespace {

/// Numbers by their values: as doubles, and what these do not hold of integers of 64 bits.
void add_values(Digest& digest, ElementType type, const void* raw, Index count) {
  std::vector<double> near(static_cast<std::size_t>(count)), rest;
  for (Index i = 0; i < count; ++i) {
    const ExactNumber exact = exact_number_at(type, raw, i);
    double& value = near[static_cast<std::size_t>(i)];
    value = std::isnan(exact) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(exact);
    if (!std::isfinite(value) || static_cast<ExactNumber>(value) == exact) continue;
    rest.push_back(static_cast<double>(i));
    rest.push_back(static_cast<double>(exact - static_cast<ExactNumber>(value)));
  }
  digest.add(near.data(), near.size() * sizeof(double));
  if (!rest.empty()) digest.add(rest.data(), rest.size() * sizeof(double));
}

}  // namespace

void add_numbers(Digest& digest, const RowSource& rows, const Glance& glance, NumberDigest what) {
  const Index bytes = size_of(rows.type());
  // Values are read from the same boxes, whatever their type is.
  const Index counted = what == NumberDigest::values ? static_cast<Index>(sizeof(double)) : bytes;
  std::vector<std::byte> values;
  for (const ContiguousBox& block : glance_blocks(rows.shape(), counted, glance)) {
    values.resize(static_cast<std::size_t>(block.elements * bytes));
    const RowBox box{{block.first.begin() + 1, block.first.end()}, {block.count.begin() + 1, block.count.end()}};
    if (std::equal(box.count.begin(), box.count.end(), rows.shape().begin() + 1))
      rows.read(block.first[0], block.count[0], values.data());
    else
      rows.read(block.first[0], block.count[0], box, values.data());
    if (what == NumberDigest::values)
      add_values(digest, rows.type(), values.data(), block.elements);
    else
      digest.add(values.data(), values.size());
  }
}

}  // namespace mrmf::h5

namespace mrmf {
namespace {

constexpr Index most_files = 64;              // that are looked into
constexpr Index most_bytes = Index{1} << 26;  // most bytes of all files' data sets of one name
constexpr Index most_groups = 4096;           // most groups of a file, each of which must be opened

std::vector<std::string> recorded_names(const DatasetSpec& spec) {
  std::vector<std::string> names = spec.sample_names();
  std::ranges::copy(spec.label_names(), std::back_inserter(names));
  std::ranges::copy(spec.choice.columns(), std::back_inserter(names));
  return names;
}

/// So many of `count` files, evenly: the first and the last among them.
std::vector<Index> chosen_files(Index count) {
  const Index wanted = std::min(count, most_files);
  std::vector<Index> chosen;
  for (Index i = 0; i < wanted; ++i) chosen.push_back(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1));
  return chosen;
}

h5::Glance glance_at_each(Index files, RowsBy form) {
  const Index share = most_bytes / files, block_count = files > 8 ? 4 : 8;
  h5::Glance glance{share, block_count, std::min(share / block_count, Index{1} << 18)};
  if (form == RowsBy::groups) glance.rows = most_groups / files;
  return glance;
}

std::vector<ArrayRecord> records_of(const UsedFile& used, Index position, const h5::Glance& glance,
                                    const OpenRows& open) {
  std::vector<ArrayRecord> records;
  for (std::size_t i = 0; i < used.datasets.size(); ++i) {
    const RowSource& rows = *open[i];
    h5::Digest digest;
    const std::string type = rows.holds_words() ? "words" : to_string(rows.type());
    digest.add(rows.holds_words() ? "words" : "numbers");
    if (rows.holds_words())
      for (const std::string& word : rows.words(0, rows.shape().front())) digest.add(word);
    else
      add_numbers(digest, rows, glance, h5::NumberDigest::values);
    records.push_back({position, used.datasets[i], rows.shape(), digest.sum(), type});
  }
  return records;
}

/// The digests of all numbers, by `digest`. Groups whose types differ are read as float64: which types there are nobody
/// has looked for here.
template <typename Digests>
Digests with_any_types(const RowSources& sources, std::size_t file,
                       const std::function<Digests(const OpenRows&)>& digest) {
  try {
    return digest(*sources.open(file));
  } catch (const DataError&) {
    GroupsAsRows any;
    for (const std::string& name : sources.names()) any.types[name] = ElementType::float64;
    return digest(*sources.open(file, any));  // which says what is wrong if it is not that
  }
}

void record_arrays(const UsedFile& used, Index position, const h5::Glance& glance, std::vector<ArrayRecord>& arrays) {
  DatasetSpec spec;
  spec.files = {used.path};
  spec.name_samples(used.datasets);
  spec.rows = used.rows;
  spec.groups = used.groups;
  spec.packing = used.packing;
  spec.missing = MissingRule::fill;  // whoever reads the rows says what is missing
  const std::function<std::vector<ArrayRecord>(const OpenRows&)> record = [&](const OpenRows& open) {
    return records_of(used, position, glance, open);
  };
  const RowSources sources(spec, nullptr, used.datasets, {.words = true});
  std::ranges::move(with_any_types(sources, 0, record), std::back_inserter(arrays));
}

}  // namespace

std::vector<UsedFile> used_files(const DatasetSpec& train, const DatasetSpec& validation) {
  const bool shared = train.files == validation.files && train.groups == validation.groups;
  std::vector<std::string> names = recorded_names(train), more = recorded_names(validation);
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

// Whether all ranks see the same files.

namespace {

constexpr Index kFewFiles = 256;  // looked at by every rank

/// Some from both ends.
void add_words(h5::Digest& digest, const RowSource& rows) {
  constexpr Index most = 64;
  const Index count = rows.shape().front(), some = std::min(count, most);
  for (const Index first : {Index{0}, count - some})
    for (const std::string& word : rows.words(first, some)) digest.add(word);
}

void add(h5::Digest& digest, const RowSource& rows) {
  digest.add(rows.shape());
  digest.add(rows.way().text);
  if (rows.holds_words()) return add_words(digest, rows);
  digest.add(static_cast<Index>(rows.type()));
  add_numbers(digest, rows, {}, h5::NumberDigest::stored);
}

std::int64_t digest_of(const OpenRows& open) {
  h5::Digest digest;
  for (const auto& rows : open) add(digest, *rows);
  return static_cast<std::int64_t>(digest.sum());
}

/// What ranks see of files that each looks at one after the other; of groups, which of them there are, too.
class Views {
 public:
  Views(const DatasetSpec& spec, const DatasetShape* shape, Comm& comm)
      : comm_(comm), sources_(spec, spec.rows == RowsBy::groups ? nullptr : shape, names_of(spec), {.words = true}) {}

  /// The digests of this rank's files.
  std::vector<std::int64_t> of(Range files) const {
    std::vector<std::int64_t> digests;
    const std::function<std::int64_t(const OpenRows&)> digest = digest_of;
    collective_try_each(comm_, files.first, files.count, [&](Index i) {
      digests.push_back(with_any_types(sources_, static_cast<std::size_t>(i), digest));
    });
    return digests;
  }

 private:
  static std::vector<std::string> names_of(const DatasetSpec& spec) {
    std::vector<std::string> names = spec.sample_names();
    std::ranges::copy(spec.label_names(), std::back_inserter(names));
    return names;
  }

  Comm& comm_;
  RowSources sources_;
};

[[noreturn]] void refuse(const DatasetSpec& spec, Index file, Index rank, Index other) {
  throw DataError(spec.files[static_cast<std::size_t>(file)] + ": rank " + std::to_string(rank) +
                  " sees other contents than rank " + std::to_string(other) + " (data set '" + spec.samples + "'" +
                  (spec.labels.empty() ? "" : " or '" + spec.labels + "'") + "); is it the same file on every node?");
}

/// Every rank looks at all files.
void compare_all(const DatasetSpec& spec, const DatasetShape* shape, Comm& comm) {
  const std::vector<std::int64_t> mine = Views(spec, shape, comm).of({0, std::ssize(spec.files)});
  std::vector<std::int64_t> roots = mine;
  comm.broadcast(std::span(roots), 0);
  const auto differs = static_cast<Index>(std::ranges::mismatch(mine, roots).in1 - mine.begin());
  const auto first = static_cast<Index>(comm.min(static_cast<double>(differs)));
  if (first == std::ssize(mine)) return;
  refuse(spec, first, static_cast<Index>(comm.min(differs == first ? comm.rank() : comm.size())), 0);
}

/// Two ranks look at each file, one of them that which has read its headers. They are half of all ranks apart, which is
/// on different nodes where there are several.
void compare_shared(const DatasetSpec& spec, const DatasetShape* shape, Comm& comm) {
  const Index files = std::ssize(spec.files);
  const int ranks = comm.size(), apart = ranks / 2;
  const Views views(spec, shape, comm);
  std::vector<std::vector<std::int64_t>> seen(2, std::vector<std::int64_t>(spec.files.size()));
  const auto owner_of = [&](Index file, int reader) {
    for (int rank = 0; rank < ranks; ++rank)
      if (const Range here = piece(files, rank, ranks); file < here.first + here.count)
        return (rank + reader * (ranks - apart)) % ranks;
    return 0;
  };
  for (int reader = 0; reader < 2; ++reader) {
    const Range here = piece(files, (comm.rank() + reader * apart) % ranks, ranks);
    std::ranges::copy(views.of(here), seen[static_cast<std::size_t>(reader)].begin() + here.first);
    comm.sum(std::span(seen[static_cast<std::size_t>(reader)]));
  }
  const Index file = std::ranges::mismatch(seen[0], seen[1]).in1 - seen[0].begin();
  if (file < files) refuse(spec, file, owner_of(file, 1), owner_of(file, 0));
}

}  // namespace

void require_same_data(const DatasetSpec& spec, const DatasetShape* shape, Comm& comm) {
  if (comm.size() == 1) return;
  if (std::ssize(spec.files) <= kFewFiles)
    compare_all(spec, shape, comm);
  else
    compare_shared(spec, shape, comm);
}

}  // namespace mrmf
