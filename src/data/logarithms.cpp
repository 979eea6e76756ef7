#include "src/data/logarithms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "io/labels.hpp"
#include "io/sample_files.hpp"
#include "io/sample_order.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr Index kReadElements = Index{1} << 22;

bool has_logarithms(ConstSpan values) {
  return std::ranges::all_of(values, [](float x) { return x > -1; });
}

void check_samples(const DatasetSpec& spec, const DatasetShape& shape, Range rows) {
  const SampleFiles files(spec, shape, rows);
  const Index width = shape.sample.per_sample(), step = std::max<Index>(1, kReadElements / width);
  std::vector<std::byte> stored(static_cast<std::size_t>(std::min(step, rows.count) * files.row_bytes()));
  std::vector<float> values(static_cast<std::size_t>(width));
  Scratch scratch;
  for (Index done = 0; done < rows.count; done += step) {
    const Range part{rows.first + done, std::min(step, rows.count - done)};
    files.read(part, stored.data(), scratch);
    for (Index row = 0; row < part.count; ++row) {
      to_float32(shape.type, stored.data() + row * files.row_bytes(), values);
      if (!has_logarithms(values)) refuse_logarithm({spec, shape, false, part.first + row});
    }
  }
}

void check_labels(const DatasetSpec& spec, const DatasetShape& shape, Range rows) {
  const Labels labels(spec, shape, rows);
  std::vector<float> values(static_cast<std::size_t>(shape.label.per_sample()));
  for (Index row = 0; row < rows.count; ++row) {
    labels.write({1, 1, 1}, row, values);
    if (!has_logarithms(values)) refuse_logarithm({spec, shape, true, rows.first + row});
  }
}

}  // namespace

void refuse_logarithm(const LogarithmPlace& place) {
  RowRun found;
  StoredRows(place.shape).for_each_run({place.sample, 1}, [&](const RowRun& run) { found = run; });
  const std::string one = place.of_labels ? "label" : "sample";
  throw DataError(fmt::format(
      "{}: data set '{}', row {} holds a number that is not above -1, and data.normalise.{}s takes the logarithm of "
      "1 + x; remove or repair that {}",
      place.spec.files[found.file],
      place.of_labels ? place.spec.labels : fmt::format("{}", fmt::join(place.spec.sample_names(), "', '")),
      found.rows.first, one, one));
}

void require_logarithms(const DataConfig& data, const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  const Range mine = piece(shape.samples, comm.rank(), comm.size());
  collective_try(comm, [&] {
    if (mine.count == 0) return;
    if (data.normalise_samples.log1p) check_samples(spec, shape, mine);
    if (data.normalise_labels.log1p) check_labels(spec, shape, mine);
  });
}

}  // namespace mrmf
