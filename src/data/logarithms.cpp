#include "src/data/logarithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "io/row_source.hpp"
#include "io/sample_order.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

void check(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of, Range samples) {
  const NumberReader read = numbers_of(spec, shape, of).open(samples);
  for (Index i = samples.first; i < samples.first + samples.count; ++i)
    if (!std::ranges::all_of(read(i), [](float x) { return x > -1 || std::isnan(x); }))
      refuse_logarithm({spec, shape, of, i});
}

}  // namespace

void refuse_logarithm(const LogarithmLocation& place) {
  const RowRun found = StoredRows(place.shape).at(place.sample);
  const bool labels = place.of == NumbersOf::labels;
  const std::string one = labels ? "label" : "sample";
  const auto open = RowSources(place.spec, place.shape, labels ? place.spec.label_names() : place.spec.sample_names())
                        .open(found.file);
  throw DataError(fmt::format(
      "{} holds a number that is not above -1, and data.normalise.{}s takes the logarithm of 1 + x; remove or repair "
      "that {}",
      open->front()->place(found.rows.first), one, one));
}

void require_logarithms(const DataConfig& data, const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  const Range mine = piece(shape.samples, comm.rank(), comm.size());
  collective_try(comm, [&] {
    if (mine.count == 0) return;
    if (data.normalise_samples.log1p) check(spec, shape, NumbersOf::samples, mine);
    if (data.normalise_labels.log1p) check(spec, shape, NumbersOf::labels, mine);
  });
}

}  // namespace mrmf
