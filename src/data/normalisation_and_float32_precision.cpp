// Units of samples and labels, their normalisation, and the digits that float32 does not keep of them.
#include "src/data/normalisation_and_float32_precision.hpp"

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
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {
namespace {

constexpr const char* kUnknown = "?";  // lists of a configuration have it where an array does not say its units
constexpr const char* kRemedy = "convert one of them, or, if only the attribute 'units' is wrong, correct it";

// Units of some arrays of a data set, in the order of their names.
struct UnitsOf {
  std::vector<std::string> names, units;
};

UnitsOf of_samples(const FoundDataset& data) {
  UnitsOf of{data.spec.sample_names(), data.shape.units};
  of.units.resize(of.names.size());
  return of;
}

UnitsOf of_labels(const FoundDataset& data) {
  const std::size_t samples = std::min(data.spec.sample_names().size(), data.shape.units.size());
  UnitsOf of{data.spec.label_names(),
             {data.shape.units.begin() + static_cast<std::ptrdiff_t>(samples), data.shape.units.end()}};
  of.units.resize(of.names.size());
  return of;
}

bool is_known(const std::string& units) { return !units.empty() && units != kUnknown; }

// The first array of which both lists know other units, as `same` says; the number of arrays where there is none. Lists
// of other lengths are of other arrays.
template <typename Same>
std::size_t first_other(const std::vector<std::string>& here, const std::vector<std::string>& there, Same same) {
  if (here.size() != there.size()) return here.size();
  for (std::size_t i = 0; i < here.size(); ++i)
    if (is_known(here[i]) && is_known(there[i]) && !same(there[i], here[i])) return i;
  return here.size();
}

std::string files_text(const DatasetSpec& spec) { return spec.files.front() + (spec.files.size() > 1 ? ", ..." : ""); }

void require_known_units(const FoundDataset& data, const UnitsOf& of, const std::vector<std::string>& known,
                         const std::string& whose) {
  const std::size_t other = first_other(of.units, known, fit_units);
  if (other == of.units.size()) return;
  const auto [here, there, remedy] = units_difference(of.units[other], known[other]);
  throw DataError(fmt::format("{}: data set '{}' has {}, but {} {}; {}", files_text(data.spec), of.names[other], here,
                              whose, there, remedy.empty() ? kRemedy : remedy));
}

void require_one_each(const std::vector<std::string>& given, const UnitsOf& of, const std::string& key) {
  if (!given.empty() && given.size() != of.names.size())
    throw ConfigError(
        fmt::format("{} has {} units, and there {}; give one for each, in their order, \"{}\" where an array "
                    "says none",
                    key, given.size(),
                    of.names.size() == 1 ? "is 1 array" : fmt::format("are {} arrays", of.names.size()), kUnknown));
}

void fill_in(std::vector<std::string>& own, const std::vector<std::string>& found) {
  if (!own.empty() || std::ranges::none_of(found, is_known)) return;
  own = found;
  std::ranges::replace(own, std::string(), std::string(kUnknown));
}

}  // namespace

void resolve_units(DataConfig& data, const DatasetShape& train) {
  const FoundDataset found{data.train, train};
  const UnitsOf samples = of_samples(found), labels = of_labels(found);
  require_one_each(data.units.samples, samples, "data.units.samples");
  require_one_each(data.units.labels, labels, "data.units.labels");
  require_known_units(found, samples, data.units.samples, "data.units.samples is");
  require_known_units(found, labels, data.units.labels, "data.units.labels is");
  fill_in(data.units.samples, samples.units);
  fill_in(data.units.labels, labels.units);
}

void require_same_units(const FoundDataset& train, const FoundDataset& other, const std::string& part) {
  for (const auto& [here, there] :
       {std::pair(of_samples(other), of_samples(train)), std::pair(of_labels(other), of_labels(train))}) {
    const std::size_t first = first_other(here.units, there.units, same_units);
    if (first == here.units.size()) continue;
    const auto [own, trained, remedy] = units_difference(here.units[first], there.units[first]);
    throw DataError(fmt::format("{}: data set '{}' of the {} data has {}, but '{}' of the training data ({}) {}; {}",
                                files_text(other.spec), here.names[first], part, own, there.names[first],
                                files_text(train.spec), trained, remedy.empty() ? kRemedy : remedy));
  }
}

void require_trained_units(const DataConfig& trained, const FoundDataset& data) {
  require_known_units(data, of_samples(data), trained.units.samples, "the model was trained on");
  require_known_units(data, of_labels(data), trained.units.labels, "the model was trained on");
}

namespace {

constexpr const char* kLabelKey = "data.normalise.label";
constexpr Index kMostChannels = 4096;  // whose numbers a configuration holds

bool fills(const DataConfig& data) { return data.train.not_finite == NotFiniteRule::fill; }

void require_numbers(const ChannelFacts& facts, const Numbers& numbers) {
  for (std::size_t c = 0; c < facts.count.size(); ++c)
    if (facts.count[c] == 0)
      throw DataError(fmt::format(
          "{} holds no number in channel {} of any training sample: all are missing; leave that channel out",
          numbers.what, c));
}

/// What one side's numbers leave open; of samples, `fill` is what stands for missing ones.
struct Open {
  Normalisation& units;
  std::vector<double>* fill = nullptr;  ///< to be measured; none: it is not
};

void measure(const Open& of_side, const DatasetSpec& spec, const DatasetShape& train, NumbersOf of, Comm& comm) {
  Normalisation& units = of_side.units;
  const Numbers numbers = numbers_of(spec, train, of);
  const std::string key = of == NumbersOf::labels ? kLabelKey : "data.normalise.sample";
  const bool open = units.mean_std && units.mean.empty();
  if (!open && !units.log1p && of_side.fill == nullptr) return;
  if (of_side.fill != nullptr && numbers.channels > kMostChannels)
    throw ConfigError(fmt::format(
        "{} has {} channels, and data.not_finite = \"fill\" measures at most {}; set data.fill to one number for all",
        numbers.what, numbers.channels, kMostChannels));
  if (open && numbers.channels > kMostChannels)
    throw ConfigError(
        fmt::format("{} has {} channels, and {}s = \"mean_std\" measures at most {}; set {}_mean and "
                    "{}_std to one number for all",
                    numbers.what, numbers.channels, key, kMostChannels, key, key));
  ChannelFacts facts = channel_facts(numbers, units.log1p, comm);
  if (of == NumbersOf::samples && spec.mask) facts.drop_last();  // 0 and 1 stay
  require_numbers(facts, numbers);
  const double least = std::ranges::min(facts.least);
  if (units.log1p && !(least > -1))
    throw DataError(fmt::format("{} holds {:g}, and {}s = \"log1p\" takes the logarithm of 1 + x; x must be above -1",
                                numbers.what, least, key));
  if (of_side.fill != nullptr) *of_side.fill = facts.mean;
  if (!open) return;
  if (!units.log1p) require_digits(spec, train, of, facts, comm);
  for (std::size_t c = 0; c < facts.mean.size(); ++c)
    if (!(facts.deviation[c] > 0))
      throw DataError(fmt::format(
          "{} is {:g} in channel {} of all training samples{}, so mean_std has nothing to divide by; {}, or give "
          "{}_mean and {}_std",
          numbers.what, facts.least[c], c, facts.least[c] == facts.most[c] ? "" : " but for digits that are lost",
          of == NumbersOf::labels ? "there is nothing to learn from such labels: name others"
                                  : "leave that channel out of the file",
          key, key));
  units.mean = facts.mean;
  units.std = facts.deviation;
}

// Measures only the first sets of mixed labels, which have no positions: other numbers stay as they are.
void measure_mixed(DataConfig& data, const DatasetShape& train, Comm& comm) {
  Normalisation& units = data.normalise_labels;
  if (units.log1p)
    throw ConfigError(
        "data.normalise.labels: labels of different positions have no common logarithm; store them as logarithms");
  if (train.mixed.sets == 0 && units.mean_std)
    throw ConfigError(fmt::format(
        "data.normalise.labels = \"mean_std\" is of the first of several label sets, and '{}' has positions; name the "
        "sets without positions first",
        data.train.labels));
  const auto given = std::ssize(units.mean);
  if (given > 2 && given != train.mixed.numbers && given != train.mixed.all)
    channel_map(units, train.mixed.numbers, kLabelKey);  // says how many there are
  const auto [spec, shape] = first_of_mixed(data.train, train);
  measure({units}, spec, shape, NumbersOf::labels, comm);
  // One number alone would be of all labels.
  if (units.mean_std && units.mean.size() == 1 && train.mixed.numbers == 1)
    units.mean.push_back(0), units.std.push_back(1);
}

}  // namespace

void resolve_normalisation(Config& config, const DatasetShape& train, Comm& comm) {
  DataConfig& data = config.data;
  const bool fill = fills(data) && !data.normalise_samples.mean_std && data.fill.empty();
  measure({data.normalise_samples, fill ? &data.fill : nullptr}, data.train, train, NumbersOf::samples, comm);
  if (train.mixed.any())
    measure_mixed(data, train, comm);
  else
    measure({data.normalise_labels}, data.train, train, NumbersOf::labels, comm);
  sample_map(config, train.sample);
  if (train.mixed.any())
    label_map(config, train.label);
  else
    channel_map(data.normalise_labels, train.label.channels, kLabelKey);
}

ChannelMap channel_map(const Normalisation& normalisation, Index channels, const std::string& key) {
  ChannelMap map{.log1p = normalisation.log1p, .scale = {}, .shift = {}};
  const std::size_t means = normalisation.mean.size(), deviations = normalisation.std.size();
  if (means == 0 && deviations == 0) {
    if (normalisation.mean_std)
      throw ConfigError(key +
                        ": mean and standard deviation are still to be measured: this configuration is of no run; name "
                        "the folder of a finished one");
    return map;
  }
  const auto count = static_cast<std::size_t>(channels);
  const auto fits = [&](std::size_t numbers) { return numbers == 1 || numbers == count; };
  if (!fits(means) || !fits(deviations))
    throw ConfigError(
        fmt::format("{}: {} means and {} standard deviations for {} channels; give one of each, or one "
                    "per channel",
                    key, means, deviations, channels));
  for (std::size_t c = 0; c < count; ++c) {
    const double mean = normalisation.mean[means == 1 ? 0 : c], deviation = normalisation.std[deviations == 1 ? 0 : c];
    if (!(deviation > 0))
      throw ConfigError(fmt::format("{}: a standard deviation of {}; it must be above 0", key, deviation));
    map.scale.push_back(static_cast<float>(1 / deviation));
    map.shift.push_back(static_cast<float>(-mean / deviation));
    if (!std::isfinite(map.scale.back()) || !std::isfinite(map.shift.back()))
      throw ConfigError(
          fmt::format("{}: a mean of {:g} and a standard deviation of {:g} in channel {} are too small for float32 to "
                      "divide by; store the numbers in other units",
                      key, mean, deviation, c));
  }
  return map;
}

ChannelMap sample_map(const Config& config, const Shape& sample) {
  const DataConfig& data = config.data;
  const Index channels = sample.channels - (data.train.mask ? 1 : 0);
  ChannelMap map = channel_map(data.normalise_samples, channels, "data.normalise.sample");
  map.mask = data.train.mask;
  if (!fills(data) && !map.mask) return map;
  if (data.fill.empty() && !data.normalise_samples.mean_std)
    throw ConfigError(
        "data.fill: what stands for missing numbers is still to be measured, as training with data.not_finite = "
        "\"fill\" does; name the folder of such a run, or set data.fill");
  if (data.fill.size() > 1 && std::ssize(data.fill) != channels)
    throw ConfigError(
        fmt::format("data.fill: {} numbers for {} channels; give one, or one per channel", data.fill.size(), channels));
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
    map.fill.push_back(data.fill.empty() ? 0 : static_cast<float>(data.fill[data.fill.size() == 1 ? 0 : c]));
  return map;
}

// Where there are several data sets, the first ones may be normalised alone.
ChannelMap label_map(const Config& config, const Shape& label) {
  Normalisation units = config.data.normalise_labels;
  const std::size_t all = static_cast<std::size_t>(label.channels), given = units.mean.size();
  const bool some = !config.data.train.more_labels.empty() && given > 1 && given < all && units.std.size() == given;
  if (some && !units.log1p) units.mean.resize(all, 0), units.std.resize(all, 1);
  return channel_map(units, label.channels, kLabelKey);
}

ChannelMap output_map(const Config& config, const Shape& output) {
  const auto given = std::ssize(config.data.normalise_labels.mean);
  const bool list = given > 1 && given != output.channels;
  return label_map(config, list ? Shape{.channels = output.per_sample()} : output);
}

namespace {

void check(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of, Range samples) {
  const NumberReader read = numbers_of(spec, shape, of).open(samples);
  for (Index i = samples.first; i < samples.first + samples.count; ++i)
    if (!std::ranges::all_of(read(i), [](float x) { return x > -1 || std::isnan(x); }))
      refuse_logarithm({spec, shape, of, i});
}

}  // namespace

void refuse_logarithm(const LogarithmLocation& location) {
  const RowRun found = StoredRows(location.shape).at(location.sample);
  const bool labels = location.of == NumbersOf::labels;
  const std::string one = labels ? "label" : "sample";
  const auto open =
      RowSources(location.spec, location.shape, labels ? location.spec.label_names() : location.spec.sample_names())
          .open(found.file);
  throw DataError(fmt::format(
      "{} holds a number that is not above -1, and data.normalise.{}s takes the logarithm of 1 + x; remove or repair "
      "that {}",
      open->front()->row_text(found.rows.first), one, one));
}

void require_logarithms(const DataConfig& data, const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  const Range mine = piece(shape.samples, comm.rank(), comm.size());
  collective_try(comm, [&] {
    if (mine.count == 0) return;
    if (data.normalise_samples.log1p) check(spec, shape, NumbersOf::samples, mine);
    if (data.normalise_labels.log1p) check(spec, shape, NumbersOf::labels, mine);
  });
}

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
