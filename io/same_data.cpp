// Whether all ranks see the same files.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/row_digest.hpp"
#include "io/row_source.hpp"
#include "io/sample_order.hpp"
#include "kernels/check.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
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
  add_numbers(digest, rows, {});
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
      : comm_(comm), sources_(spec, spec.rows == RowForm::groups ? nullptr : shape, names_of(spec), {.words = true}) {}

  /// The digests of this rank's files.
  std::vector<std::int64_t> of(Range files) const {
    std::vector<std::int64_t> digests;
    collective_try_each(comm_, files.first, files.count,
                        [&](Index i) { digests.push_back(digest_of(*sources_.open(static_cast<std::size_t>(i)))); });
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
