#include "io/not_finite.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "io/class_values.hpp"
#include "io/element.hpp"
#include "io/sample_files.hpp"
#include "io/stored_rows.hpp"

namespace mrmf {
namespace {

constexpr Index kReadBytes = Index{1} << 24;

/// Adds the bad rows of a run of one file to `bad`, counted from the run's first row as `number`. Numbers that float32
/// cannot hold say something that is not to be skipped.
void add_bad(const RowSource& reader, Range rows, Index number, std::vector<Index>& bad) {
  const ElementType type = reader.type();
  const Index width = reader.row_bytes() / size_of(type);
  const Index step = std::max<Index>(1, kReadBytes / std::max<Index>(1, reader.row_bytes()));
  std::vector<std::byte> values;
  for (Index done = 0; done < rows.count; done += step) {
    const Index count = std::min(step, rows.count - done);
    values.resize(static_cast<std::size_t>(count * reader.row_bytes()));
    reader.read(rows.first + done, count, values.data());
    for (Index row = 0; row < count; ++row) {
      const std::byte* const from = values.data() + row * reader.row_bytes();
      if (first_not_finite(type, from, width) < width)
        bad.push_back(number + done + row);
      else if (first_beyond_float32(type, from, width) < width)
        throw DataError(not_finite_text(reader, rows.first + done + row));
    }
  }
}

bool may_be_bad(ElementType type) {
  return type == ElementType::float16 || type == ElementType::float32 || type == ElementType::float64;
}

/// This rank's bad rows.
void scan(const DatasetSpec& spec, const std::vector<std::string>& names, const DatasetShape& shape, Range mine,
          std::vector<Index>& bad) {
  const StoredRows stored(shape);
  std::vector<Index> starts{0};
  for (std::size_t i = 0; i < spec.files.size(); ++i) starts.push_back(starts.back() + stored.rows_of_file(i));
  const RowSources sources(spec, &shape, names, {1, kMostCached / std::ssize(names)});
  stored.for_each_run(mine, [&](const RowRun& run) {
    const auto open = sources.at(run.file);
    for (const auto& rows : *open)
      if (may_be_bad(rows->type())) add_bad(*rows, run.rows, starts[run.file] + run.rows.first, bad);
  });
}

}  // namespace

std::vector<Index> rows_not_finite(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  std::vector<Index> bad;
  collective_try(comm, [&] {
    const Range mine = piece(shape.samples, comm.rank(), comm.size());
    std::vector<std::string> names = spec.sample_names();
    if (!holds_words(spec.form)) std::ranges::copy(spec.label_names(), std::back_inserter(names));
    scan(spec, names, shape, mine, bad);
  });
  std::ranges::sort(bad);
  bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
  const std::vector<double> counts = comm.gather(static_cast<double>(bad.size()));
  const auto before = static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + comm.rank(), 0.0));
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0.0)));
  std::ranges::copy(bad, all.begin() + before);
  comm.sum(all);
  return {all.begin(), all.end()};
}

}  // namespace mrmf
