#include "src/data/lost_digits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "io/axis_order.hpp"
#include "io/dataset.hpp"
#include "io/labels.hpp"
#include "io/row_choice.hpp"
#include "io/row_source.hpp"
#include "io/sample_order.hpp"
#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/data/row_facts.hpp"

namespace mrmf {
namespace {

constexpr Index kFewRows = 256, kFewBytes = Index{1} << 24;  // rows larger than that take memory that nobody foresaw
constexpr Index kRows = 4096, kElements = Index{1} << 22;    // looked at
constexpr double kMostError = 0.01;                          // share of the deviation

/// The distance of neighbours in float32.
double step_at(double value) {
  const auto size = static_cast<float>(std::abs(value));
  return double{std::nextafter(size, std::numeric_limits<float>::infinity())} - size;
}

/// Only where the deviation is few steps can much of it be lost: rounding moves a number by at most half a step. Zeros
/// may be numbers that float32 does not have.
bool may_lose(const ChannelFacts& facts, std::size_t c) {
  const double largest = std::max(std::abs(facts.least[c]), std::abs(facts.most[c]));
  return facts.deviation[c] < step_at(largest) / kMostError;
}

/// Nothing is counted, and few things are measured in whole numbers, so far.
bool is_like_identifier(double value) {
  constexpr double kFar = 9007199254740992;  // 2^53
  return std::abs(value) >= kFar;
}

bool is_wide(ElementType type) { return size_of(type) >= 4 && type != ElementType::float32; }

/// Sums of one channel, around its first number, which keeps the sums exact enough.
struct ChannelSums {
  ExactNumber origin = 0;
  double count = 0;
  ExactNumber x = 0, xx = 0, errors = 0;
  bool same = true;   // all numbers are
  bool whole = true;  // whether the numbers are of an integer type
  void add(ExactNumber value) {
    if (std::isnan(value)) return;  // missing
    if (count == 0) origin = value;
    same = same && value == origin;
    const ExactNumber error = value - static_cast<float>(value);
    const ExactNumber from_origin = value - origin;
    ++count;
    x += from_origin;
    xx += from_origin * from_origin;
    errors += error * error;
  }
  ExactNumber mean() const { return origin + x / count; }
  double deviation() const {
    return static_cast<double>(std::sqrt(std::max<ExactNumber>(0, xx / count - x / count * (x / count))));
  }
  double error() const { return static_cast<double>(std::sqrt(errors / count)); }
};

enum class Looked { few, some, all };

/// Adds rows of one data set, all or evenly chosen ones, to the sums of its channels, which begin at `first`. Returns
/// how many channels it has.
Index add_rows(const DatasetSpec& spec, const DatasetShape& shape, const std::string& name, NumbersOf of, Looked looked,
               std::vector<ChannelSums>& sums, std::size_t first) {
  const AxisOrder order = parse_axes(spec.axes);
  const StoredRows stored(shape);
  const RowSources sources(spec, shape, {name});
  Shape own = of == NumbersOf::labels ? shape.label : shape.sample;
  const Index some = std::clamp<Index>(kElements / own.per_sample(), 1, std::min(kRows, shape.samples));
  const Index rows = looked == Looked::all ? shape.samples : looked == Looked::few ? std::min(kFewRows, some) : some;
  std::vector<std::byte> values;
  const auto add = [&](const RowRun& run) {
    const auto open = sources.at(run.file);
    const auto& reader = open->front();
    const Index width = reader->row_bytes() / size_of(reader->type());
    own.channels = width / product(own.spatial);
    if (!is_wide(reader->type()) || (looked == Looked::few && reader->row_bytes() > kFewBytes)) return;
    const bool moves = of == NumbersOf::samples || labels_move(reader->shape(), shape.sample, order);
    const ChannelBox box = channel_box(own, moves ? order : AxisOrder{});
    values.resize(static_cast<std::size_t>(reader->row_bytes()));
    reader->read(run.rows.first, 1, values.data());
    const bool whole = reader->packing().whole();
    for (Index i = 0; i < width; ++i) {
      ChannelSums& channel = sums[first + static_cast<std::size_t>(i / box.after % box.channels)];
      channel.add(exact_number_at(reader->type(), values.data(), i));
      channel.whole = channel.whole && whole;
    }
  };
  for (Index i = 0; i < rows; ++i) add(stored.at(i * shape.samples / rows));
  return own.channels;
}

/// A round number near the mean, from which the deviation is seen. Not beyond a whole one: its type may hold no more.
std::string round_near(ExactNumber mean, double deviation, bool whole) {
  const ExactNumber unit = std::pow(ExactNumber{10}, std::ceil(std::log10(10 * static_cast<ExactNumber>(deviation))));
  const ExactNumber round = (whole ? std::trunc(mean / unit) : std::round(mean / unit)) * unit;
  return unit >= 1 ? fmt::format("{:.0f}", round) : fmt::format("{}", static_cast<double>(round));
}

/// What is to be done. Large whole numbers are rarely measured ones.
std::string advice(const ChannelSums& sums, double deviation) {
  const std::string subtract = "subtract " + round_near(sums.mean(), deviation, sums.whole) + " before storing them";
  if (!sums.whole || !is_like_identifier(static_cast<double>(sums.mean()))) return subtract;
  return "if they are identifiers, there is nothing to learn in them; if they are times, " + subtract;
}

std::string lost_text(const DatasetSpec& spec, const std::string& name, const ChannelSums& sums, double deviation,
                      const std::string& channel) {
  const auto mean = static_cast<double>(sums.mean());
  constexpr double kLeast = std::numeric_limits<float>::min();  // smaller ones have fewer digits, or are 0
  if (std::abs(mean) < kLeast && deviation < kLeast)
    return fmt::format(
        "{}: data set '{}' holds numbers around {:g} with a deviation of {:.3g}{}, and float32, in which training "
        "computes, has none so small; store them in other units, or their logarithm",
        spec.files.front(), name, mean, deviation, channel);
  return fmt::format(
      "{}: data set '{}' holds numbers around {:g} with a deviation of {:.3g}{}, and float32, in which training "
      "computes, knows only every {:.3g} there; {}",
      spec.files.front(), name, mean, deviation, channel, step_at(mean), advice(sums, deviation));
}

/// By a few rows alone; "" where nothing is lost.
std::string lost_in_few_rows(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of) {
  const auto channels = static_cast<std::size_t>((of == NumbersOf::labels ? shape.label : shape.sample).channels);
  std::size_t first = 0;
  for (const std::string& name : of == NumbersOf::labels ? spec.label_names() : spec.sample_names()) {
    std::vector<ChannelSums> sums(channels);
    first += static_cast<std::size_t>(add_rows(spec, shape, name, of, Looked::few, sums, first));
    for (const ChannelSums& channel : sums)
      if (channel.count > 0 && channel.deviation() > 0 && channel.error() > kMostError * channel.deviation())
        return lost_text(spec, name, channel, channel.deviation(), channels > 1 ? " in a channel" : "");
  }
  return "";
}

}  // namespace

std::vector<std::string> digit_warnings(const Config& config, const DatasetShape& train, Comm& comm) {
  std::vector<std::string> warnings;
  const DataConfig& data = config.data;
  collective_try_on_root(comm, [&] {
    const auto look = [&](const Normalisation& units, NumbersOf of) {
      if (units.mean_std || units.log1p) return;
      if (std::string lost = lost_in_few_rows(data.train, train, of); !lost.empty())
        warnings.push_back(std::move(lost));
    };
    look(data.normalise_samples, NumbersOf::samples);
    if (data.train.form.kind == LabelKind::numbers) look(data.normalise_labels, NumbersOf::labels);
  });
  return warnings;
}

std::optional<std::string> lost_digits(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                       const ChannelFacts& facts) {
  const std::size_t channels = facts.mean.size();
  bool possible = false, all_same = false;
  for (std::size_t c = 0; c < channels; ++c) {
    possible = possible || may_lose(facts, c);
    all_same = all_same || (may_lose(facts, c) && facts.least[c] == facts.most[c]);
  }
  if (!possible) return {};
  std::size_t first = 0;
  for (const std::string& name : of == NumbersOf::labels ? spec.label_names() : spec.sample_names()) {
    std::vector<ChannelSums> sums(channels);
    const Index own = add_rows(spec, shape, name, of, all_same ? Looked::all : Looked::some, sums, first);
    for (std::size_t c = 0; c < channels; ++c) {
      if (sums[c].count == 0) continue;
      // In float32, numbers that differ may all be the same.
      const double deviation = std::max(sums[c].deviation(), facts.deviation[c]);
      if (!(deviation > 0)) continue;
      if (!may_lose(facts, c) || !(sums[c].error() > kMostError * deviation)) continue;
      return lost_text(spec, name, sums[c], deviation, own > 1 ? fmt::format(" in channel {}", c - first) : "");
    }
    first += static_cast<std::size_t>(own);
  }
  return {};
}

std::vector<bool> constant_channels(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                    const ChannelFacts& facts) {
  constexpr double kExact = 16777216;  // 2^24: up to here float32 holds every whole number
  std::vector<bool> constant;
  bool doubtful = false;
  for (std::size_t c = 0; c < facts.least.size(); ++c) {
    constant.push_back(facts.least[c] == facts.most[c]);
    doubtful = doubtful || (constant.back() && std::abs(facts.least[c]) >= kExact);
  }
  if (!doubtful) return constant;
  std::size_t first = 0;
  for (const std::string& name : of == NumbersOf::labels ? spec.label_names() : spec.sample_names()) {
    std::vector<ChannelSums> sums(facts.least.size());
    first += static_cast<std::size_t>(add_rows(spec, shape, name, of, Looked::all, sums, first));
    for (std::size_t c = 0; c < sums.size(); ++c) constant[c] = constant[c] && sums[c].same;
  }
  return constant;
}

std::optional<std::string> like_identifiers(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                            const ChannelFacts& facts) {
  if (!is_like_identifier(std::fmax(facts.most_of_all(), -facts.least_of_all()))) return {};
  const auto names = of == NumbersOf::labels ? spec.label_names() : spec.sample_names();
  const Index positions = product((of == NumbersOf::labels ? shape.label : shape.sample).spatial);
  const auto open = RowSources(spec, &shape, names, {}).open(0);
  auto least = facts.least.begin(), most = facts.most.begin();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const RowSource& rows = *(*open)[i];
    const Index channels = rows.row_elements() / positions;
    ChannelFacts own;
    own.least.assign(least, least + channels);
    own.most.assign(most, most + channels);
    least += channels, most += channels;
    const double from = own.least_of_all(), to = own.most_of_all();
    if (is_float(rows.packing().stored) || rows.packing().scaled() || !is_like_identifier(std::fmax(to, -from)))
      continue;
    return fmt::format(
        "{} '{}' are whole numbers from {:g} to {:g}, as identifiers are; if they are, there is nothing to learn in "
        "them",
        to_string(of), names[i], from, to);
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
