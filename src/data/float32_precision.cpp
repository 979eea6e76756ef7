#include "src/data/float32_precision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/split.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/element_type.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {
namespace {

constexpr Index kFewRows = 256, kFewBytes = Index{1} << 24;  // rows larger than that take memory that nobody foresaw
constexpr Index kRows = 4096, kElements = Index{1} << 22;    // looked at

/// Only where the deviation is few steps can much of it be lost: rounding moves a number by at most half a step. Zeros
/// may be numbers that float32 does not have.
bool may_lose(const ChannelFacts& facts, std::size_t c) {
  const double largest = std::max(std::abs(facts.least[c]), std::abs(facts.most[c]));
  return facts.deviation[c] < step_at(largest) / ChannelSums::kMostError;
}

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

std::string lost_in(const DatasetSpec& spec, const std::string& name, const ChannelSums& sums, double deviation,
                    const std::string& channel) {
  return fmt::format("{}: data set '{}' {}", spec.files.front(), name,
                     lost_text(sums, deviation, channel, "training computes"));
}

/// By a few rows alone; "" where nothing is lost.
std::string lost_in_few_rows(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of) {
  const auto channels = static_cast<std::size_t>((of == NumbersOf::labels ? shape.label : shape.sample).channels);
  std::size_t first = 0;
  for (const std::string& name : of == NumbersOf::labels ? spec.label_names() : spec.sample_names()) {
    std::vector<ChannelSums> sums(channels);
    first += static_cast<std::size_t>(add_rows(spec, shape, name, of, Looked::few, sums, first));
    for (const ChannelSums& channel : sums)
      if (channel.loses_digits())
        return lost_in(spec, name, channel, channel.deviation(), channels > 1 ? " in a channel" : "");
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
      if (!may_lose(facts, c) || !(sums[c].error() > ChannelSums::kMostError * deviation)) continue;
      return lost_in(spec, name, sums[c], deviation, own > 1 ? fmt::format(" in channel {}", c - first) : "");
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
