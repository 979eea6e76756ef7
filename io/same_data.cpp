// Do all ranks see the same files?
#include <algorithm>
#include <numeric>

#include "io/dataset.hpp"
#include "io/hdf5_lock.hpp"
#include "io/hdf5_rows.hpp"
#include "io/hdf5_state.hpp"
#include "io/input_file.hpp"
#include "mpi/agreement.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr Index most_bytes = Index{1} << 16;  // of a row

/// A consecutive piece out of the middle of a row.
h5::Block middle(const std::vector<Index>& shape, Index row, Index element_bytes) {
  h5::Block piece{std::vector<Index>(shape.size(), 0), shape, 0};
  piece.first[0] = row;
  piece.count[0] = 1;
  Index inner = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  for (std::size_t axis = 1; axis < shape.size() && inner > most_bytes; ++axis) {
    inner /= shape[axis];
    piece.count[axis] = std::clamp<Index>(most_bytes / std::max<Index>(inner, 1), 1, shape[axis]);
    piece.first[axis] = (shape[axis] - piece.count[axis]) / 2;
    inner *= piece.count[axis];
  }
  piece.elements = std::accumulate(piece.count.begin(), piece.count.end(), Index{1}, std::multiplies<>());
  return piece;
}

class Digest {
 public:
  void add(const void* bytes, std::size_t count) { sum_ = XXH3_64bits_withSeed(bytes, count, sum_); }
  void add(Index number) { add(&number, sizeof number); }
  void add(const std::vector<Index>& numbers) {
    add(std::ssize(numbers));
    for (const Index number : numbers) add(number);
  }
  XXH64_hash_t sum() const { return sum_; }

 private:
  XXH64_hash_t sum_ = 0;
};

void add_dataset(Digest& digest, const std::string& path, hid_t file, const std::string& name) {
  const h5::Rows rows(path, file, name);
  const h5::Storage& storage = rows.storage();
  digest.add(rows.shape());
  digest.add(static_cast<Index>(rows.type()));
  digest.add(storage.chunk);
  digest.add(storage.filtered ? 1 : 0);
  digest.add(storage.contiguous ? 1 : 0);
  const Index count = rows.shape().front();
  std::vector<std::byte> values;
  for (const Index row : {Index{0}, count / 3, 2 * (count / 3), count - 1}) {
    if (row < 0) return;
    const h5::Block piece = middle(rows.shape(), row, size_of(rows.type()));
    values.resize(static_cast<std::size_t>(piece.elements * size_of(rows.type())));
    rows.read(piece, values.data());
    digest.add(values.data(), values.size());
  }
}

std::int64_t digest_of(const std::string& path, const DatasetSpec& spec) {
  const h5::Lock lock;
  h5::silence();
  h5::check_readable(path);
  const h5::Properties access = h5::file_access();
  const h5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  h5::require(bool(file), path + ": cannot be opened");
  Digest digest;
  add_dataset(digest, path, file.get(), spec.samples);
  if (!spec.labels.empty()) add_dataset(digest, path, file.get(), spec.labels);
  return static_cast<std::int64_t>(digest.sum());
}

}  // namespace

void require_same_data(const DatasetSpec& spec, Comm& comm) {
  if (comm.size() == 1) return;
  std::vector<std::int64_t> mine;
  together(comm, [&] {
    for (const std::string& path : spec.files) mine.push_back(digest_of(path, spec));
  });
  std::vector<std::int64_t> roots = mine;
  comm.broadcast(std::span(roots), 0);
  const auto differs = static_cast<Index>(std::ranges::mismatch(mine, roots).in1 - mine.begin());
  const auto first = static_cast<Index>(comm.min(static_cast<double>(differs)));
  if (first == std::ssize(mine)) return;
  const auto rank = static_cast<int>(comm.min(differs == first ? comm.rank() : comm.size()));
  throw DataError(spec.files[static_cast<std::size_t>(first)] + ": rank " + std::to_string(rank) +
                  " sees other contents than rank 0 (data set '" + spec.samples + "'" +
                  (spec.labels.empty() ? "" : " or '" + spec.labels + "'") + "); is it the same file on every node?");
}

}  // namespace mrmf
