#include "src/data/digits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "io/axis_order.hpp"
#include "io/labels.hpp"
#include "io/row_reader.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

constexpr Index kRows = 4096, kElements = Index{1} << 22;  // looked at
constexpr double kMostError = 0.01;                        // of the deviation

/// The distance of neighbours in float32.
double step_at(double value) {
  const auto size = static_cast<float>(std::abs(value));
  return double{std::nextafter(size, std::numeric_limits<float>::infinity())} - size;
}

/// Only where the deviation is few steps can much of it be lost: rounding moves a number by at most half a step.
bool may_lose(const ChannelFacts& facts, std::size_t c) {
  const double largest = std::max(std::abs(facts.least[c]), std::abs(facts.most[c]));
  return largest > 0 && facts.deviation[c] < step_at(largest) / kMostError;
}

bool is_wide(ElementType type) { return size_of(type) >= 4 && type != ElementType::float32; }

/// Of one channel, from the first number on, which keeps the sums exact enough.
struct Sums {
  double count = 0, origin = 0, x = 0, xx = 0, errors = 0;
  void add(double value) {
    if (std::isnan(value)) return;  // missing
    if (count == 0) origin = value;
    const double error = value - static_cast<float>(value), from_origin = value - origin;
    ++count;
    x += from_origin;
    xx += from_origin * from_origin;
    errors += error * error;
  }
  double mean() const { return origin + x / count; }
  double deviation() const { return std::sqrt(std::max(0.0, xx / count - x / count * (x / count))); }
  double error() const { return std::sqrt(errors / count); }
};

/// Adds some rows of one data set, evenly chosen, to the sums of its channels, which begin at `first`. Returns how many
/// channels it has.
Index add_rows(const DatasetSpec& spec, const DatasetShape& shape, const std::string& name, NumbersOf of,
               std::vector<Sums>& sums, std::size_t first) {
  const AxisOrder order = parse_axes(spec.axes);
  const StoredRows stored(shape);
  std::optional<RowReader> reader;
  std::size_t open = spec.files.size();
  Shape own = of == NumbersOf::labels ? shape.label : shape.sample;
  const Index rows = std::clamp<Index>(kElements / own.per_sample(), 1, std::min(kRows, shape.samples));
  std::vector<std::byte> values;
  const auto add = [&](const RowRun& run) {
    if (run.file != open) reader.emplace(spec.files[run.file], name, kMostCached, spec.packing);
    open = run.file;
    const Index width = reader->row_bytes() / size_of(reader->type());
    own.channels = width / product(own.spatial);
    if (!is_wide(reader->type())) return;
    const bool moves = of == NumbersOf::samples || labels_move(reader->shape(), shape.sample, order);
    const ChannelBox box = channel_box(own, moves ? order : AxisOrder{});
    values.resize(static_cast<std::size_t>(reader->row_bytes()));
    reader->read(run.rows.first, 1, values.data());
    for (Index i = 0; i < width; ++i)
      sums[first + static_cast<std::size_t>(i / box.after % box.channels)].add(
          number_at(reader->type(), values.data(), i));
  };
  for (Index i = 0; i < rows; ++i) add(stored.at(i * shape.samples / rows));
  return own.channels;
}

/// A round number near the mean, from which the deviation is seen.
double round_near(double mean, double deviation) {
  const double unit = std::pow(10.0, std::ceil(std::log10(10 * deviation)));
  return std::round(mean / unit) * unit;
}

}  // namespace

std::optional<std::string> lost_digits(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                       const ChannelFacts& facts) {
  const std::size_t channels = facts.mean.size();
  bool possible = false;
  for (std::size_t c = 0; c < channels; ++c) possible = possible || may_lose(facts, c);
  if (!possible) return {};
  std::size_t first = 0;
  for (const std::string& name : of == NumbersOf::labels ? std::vector{spec.labels} : spec.sample_names()) {
    std::vector<Sums> sums(channels);
    const Index own = add_rows(spec, shape, name, of, sums, first);
    for (std::size_t c = 0; c < channels; ++c) {
      if (sums[c].count == 0) continue;
      const double deviation = std::max(sums[c].deviation(), facts.deviation[c]);
      if (!may_lose(facts, c) || !(sums[c].error() > kMostError * deviation)) continue;
      return fmt::format(
          "{}: data set '{}' holds numbers around {:g} with a deviation of {:.3g}{}, and float32, in which training "
          "computes, knows only every {:.3g} there; subtract {} before storing them",
          spec.files.front(), name, sums[c].mean(), deviation, own > 1 ? fmt::format(" in channel {}", c - first) : "",
          step_at(sums[c].mean()), round_near(sums[c].mean(), deviation));
    }
    first += static_cast<std::size_t>(own);
  }
  return {};
}

void require_digits(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of, const ChannelFacts& facts,
                    Comm& comm) {
  collective_try(comm, [&] {
    if (const auto lost = lost_digits(spec, shape, of, facts)) throw DataError(*lost);
  });
}

}  // namespace mrmf
