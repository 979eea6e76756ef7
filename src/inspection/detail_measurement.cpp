// A measurement of training samples before a schedule is chosen: whether labels depend on the finest detail.
#include "src/inspection/detail_measurement.hpp"

#include <fmt/format.h>
#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "io/rows/labels.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/sample_reader.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "layers/network.hpp"
#include "mpi/comm.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

// A linear fit, judged on rows that it was not fitted to; declared in detail_measurement.hpp.

namespace {

using Matrix = Eigen::MatrixXd;
using RowNumbers = std::vector<Eigen::Index>;

constexpr int kFolds = 5;
constexpr double kConstant = 1e-9;  // a deviation, relative to the largest number of its column
// Strengths of the ridge per row of the fit; columns have a variance of 1.
constexpr std::array kRidges{1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};

Matrix matrix(const Table& table) {
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Rows>(table.values.data(), table.rows, table.columns);
}

/// The columns that change, with a mean of 0 and a variance of 1.
Matrix standardised(const Matrix& x) {
  const Matrix centred = x.rowwise() - x.colwise().mean();
  RowNumbers kept;
  for (Eigen::Index c = 0; c < x.cols(); ++c)
    if (centred.col(c).cwiseAbs().maxCoeff() > kConstant * x.col(c).cwiseAbs().maxCoeff()) kept.push_back(c);
  const Matrix some = centred(Eigen::all, kept);
  const Eigen::RowVectorXd deviation = some.colwise().norm() / std::sqrt(static_cast<double>(x.rows()));
  return some * deviation.cwiseInverse().asDiagonal();
}

/// Rows that a fit is judged on, and all others. By chance: rows may come in an order with a period.
std::pair<RowNumbers, RowNumbers> fold(Eigen::Index rows, int number) {
  RowNumbers order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  Rng random(mix(static_cast<std::uint64_t>(rows)));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::pair<RowNumbers, RowNumbers> parts;
  for (std::size_t i = 0; i < order.size(); ++i)
    (static_cast<int>(i) % kFolds == number ? parts.first : parts.second).push_back(order[i]);
  return parts;
}

/// Squared errors of one fold, for each strength of the ridge. The decomposition serves all of them.
std::array<double, kRidges.size()> errors(const Matrix& x, const Matrix& y,
                                          const std::pair<RowNumbers, RowNumbers>& parts) {
  const Matrix x_fit = x(parts.second, Eigen::all), y_fit = y(parts.second, Eigen::all);
  const Eigen::RowVectorXd x_mean = x_fit.colwise().mean(), y_mean = y_fit.colwise().mean();
  const Matrix a = x_fit.rowwise() - x_mean, b = y_fit.rowwise() - y_mean;
  const Eigen::SelfAdjointEigenSolver<Matrix> parted(a.transpose() * a);
  const Matrix& axes = parted.eigenvectors();
  const Matrix along = axes.transpose() * (a.transpose() * b);
  const Matrix judged = (x(parts.first, Eigen::all).rowwise() - x_mean) * axes;
  const Matrix wanted = y(parts.first, Eigen::all).rowwise() - y_mean;
  std::array<double, kRidges.size()> found{};
  for (std::size_t r = 0; r < kRidges.size(); ++r) {
    const double ridge = kRidges[r] * static_cast<double>(a.rows());
    const Eigen::VectorXd inverse = (parted.eigenvalues().array().max(0.0) + ridge).inverse();
    found[r] = (judged * inverse.asDiagonal() * along - wanted).squaredNorm();
  }
  return found;
}

}  // namespace

double unexplained_share(const Table& x, const Table& y) {
  MRMF_CHECK(x.rows == y.rows && x.rows >= 2 * kFolds, "too few rows for a fit");
  const Matrix from = standardised(matrix(x)), to = matrix(y);
  const double all = (to.rowwise() - to.colwise().mean()).squaredNorm();
  MRMF_CHECK(all > 0, "there is nothing to explain");
  if (from.cols() == 0) return 1;
  std::array<double, kRidges.size()> sums{};
  for (int number = 0; number < kFolds; ++number) {
    const auto found = errors(from, to, fold(from.rows(), number));
    for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += found[r];
  }
  return std::ranges::min(sums) / all;
}

namespace {

// By the problems of docs/results/map: 0.78 or more of it is left where coarse models pay, 0.61 to 0.64 where not.
constexpr double kLost = 0.75;  // share of what is unexplained without the finest level, with it
constexpr double kNoticeable =
    0.02;  // share of the labels' variance: shares of a fit that is all but exact say nothing

constexpr Index kMostRows = 512, kFewestRows = 200, kReadValues = Index{1} << 23;
constexpr Index kMostPositions = 32768,
                kMostValues = 131072;  // most positions of a sample, where its channels allow it
constexpr Index kSideStep = 16;        // so that a box has four levels of whole blocks
constexpr Index kMostChannels = 1024, kMostLabels = 512;
constexpr Index kMostColumns = 128;  // most columns of a fit to so few rows

DetailMeasurement nothing_known(const std::string& why) { return {.why_not = why}; }

/// The data set of these rows alone, which are numbered over all files.
DatasetShape of_rows(const DatasetShape& all, std::vector<Index> rows) {
  DatasetShape some = all;
  if (some.file_rows.empty()) some.file_rows = all.file_samples;
  some.skipped.clear();
  some.samples = std::ssize(rows);
  Index end = 0;
  auto from = rows.begin();
  for (std::size_t file = 0; file < some.file_rows.size(); ++file) {
    end += some.file_rows[file];
    const auto next = std::lower_bound(from, rows.end(), end);
    some.file_samples[file] = next - from;
    from = next;
  }
  some.rows = std::move(rows);
  return some;
}

/// One row of each of kMostRows equal pieces of the split, those that are not finite included. By chance: rows may come
/// in an order with a period.
std::vector<Index> drawn(const DatasetShape& train) {
  std::vector<Index> all = train.rows;  // empty: all that there are
  all.insert(all.end(), train.skipped.begin(), train.skipped.end());
  std::ranges::sort(all);
  const Index count = all.empty() ? train.samples : std::ssize(all), pieces = std::min(kMostRows, count);
  std::vector<Index> rows;
  for (Index i = 0; i < pieces; ++i) {
    const Range one = piece(count, i, pieces);
    Rng random(mix(static_cast<std::uint64_t>(i)));
    const Index at = one.first + static_cast<Index>(random.below(static_cast<std::uint64_t>(one.count)));
    rows.push_back(all.empty() ? at : all[static_cast<std::size_t>(at)]);
  }
  return rows;
}

void drop_not_finite(const DatasetSpec& spec, const DatasetShape& all, std::vector<Index>& rows) {
  Comm self = Comm::self();
  const std::vector<Index> bad = rows_not_finite(spec, of_rows(all, rows), self);
  std::erase_if(rows, [&](Index row) { return std::ranges::binary_search(bad, row); });
}

/// In the middle of a sample. It begins at a multiple of 16, where blocks begin in data at lower resolutions, too.
Box box_in(const Shape& sample) {
  Box box;
  const auto cut = [&](Index side) {
    for (std::size_t a = 0; a < box.count.size(); ++a) {
      box.count[a] = std::min(sample.spatial[a], side);
      box.first[a] = (sample.spatial[a] - box.count[a]) / 2 / kSideStep * kSideStep;
    }
    return product(box.count);
  };
  const Index most = std::min(kMostPositions, kMostValues / sample.channels);
  Index side = kMostPositions;
  while (cut(side) > most && side > kSideStep) side -= kSideStep;
  return box;
}

/// Labels as the loss sees them, one row after the other, and the rows of the files that have some.
struct SomeLabels {
  Table y{};
  std::vector<Index> rows{};
};

/// A column for each class that occurs.
Table one_hot(const Table& classes) {
  const std::set<double> occurring(classes.values.begin(), classes.values.end());
  const auto columns = static_cast<Index>(occurring.size());
  Table y{classes.rows, columns, std::vector<double>(static_cast<std::size_t>(classes.rows * columns))};
  for (Index row = 0; row < y.rows; ++row)
    y.at(row, std::distance(occurring.begin(), occurring.find(classes.at(row, 0)))) = 1;
  return y;
}

/// Numbers in the units of data.normalise; its shifts make no difference here.
void to_units(const Normalisation& units, Table& y) {
  if (units.log1p)
    for (double& value : y.values) value = std::log1p(value);
  if (!units.mean_std && units.std.empty()) return;
  for (Index column = 0; column < y.columns; ++column) {
    double deviation = 0, mean = 0;
    for (Index row = 0; row < y.rows; ++row) mean += y.at(row, column) / static_cast<double>(y.rows);
    for (Index row = 0; row < y.rows; ++row) deviation += std::pow(y.at(row, column) - mean, 2);
    deviation = std::sqrt(deviation / static_cast<double>(y.rows));
    if (!units.std.empty()) deviation = units.std[units.std.size() == 1 ? 0 : static_cast<std::size_t>(column)];
    if (deviation > 0)
      for (Index row = 0; row < y.rows; ++row) y.at(row, column) /= deviation;
  }
}

SomeLabels read_labels(const Config& config, const DatasetShape& all, const std::vector<Index>& rows) {
  DatasetSpec spec = config.data.train;
  if (spec.form.kind == LabelKind::classes) {  // as many as the network has outputs, which is resolved later
    const auto backend = make_reference_backend();
    spec.form.classes = Network(*backend, network_for(config, {1, 1, 1}, network_input(config, all.sample, {1, 1, 1})))
                            .output()
                            .channels;
  }
  const DatasetShape some = of_rows(all, rows);
  const Labels labels(spec, some, {0, std::ssize(rows)});
  SomeLabels found{{0, all.label.per_sample()}, {}};
  std::vector<float> values(static_cast<std::size_t>(found.y.columns));
  const bool may_lack = spec.form.kind != LabelKind::numbers;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    labels.write({1, 1, 1}, static_cast<Index>(i), values);
    if (config.data.normalise_labels.log1p && !(std::ranges::min(values) > -1))
      refuse_logarithm({spec, some, NumbersOf::labels, static_cast<Index>(i)});
    if (may_lack && std::ranges::min(values) < 0) continue;  // not all of them are known
    found.y.values.insert(found.y.values.end(), values.begin(), values.end());
    found.rows.push_back(rows[i]);
  }
  found.y.rows = std::ssize(found.rows);
  if (found.y.rows > 0 && spec.form.kind == LabelKind::classes) found.y = one_hot(found.y);
  to_units(config.data.normalise_labels, found.y);
  return found;
}

bool changes(const Table& y) {
  for (Index row = 1; row < y.rows; ++row)
    for (Index column = 0; column < y.columns; ++column)
      if (y.at(row, column) != y.at(0, column)) return true;
  return false;
}

/// Puts the mean of what is there of a sample's channel in the place of what is missing; 0 where all is.
void fill_missing(Span sample, Index channels) {
  const auto step = static_cast<std::size_t>(channels);
  for (std::size_t c = 0; c < step; ++c) {
    double sum = 0, count = 0;
    for (std::size_t i = c; i < sample.size(); i += step)
      if (!std::isnan(sample[i])) sum += sample[i], ++count;
    const auto mean = static_cast<float>(count > 0 ? sum / count : 0);
    for (std::size_t i = c; i < sample.size(); i += step)
      if (std::isnan(sample[i])) sample[i] = mean;
  }
}

/// Reads the box of each of these samples; visits them several at a time, one after the other in memory.
template <class Visit>
void for_each_box(const Config& config, const DatasetShape& some, const Visit& visit) {
  const Index width = some.read_sample().per_sample();
  std::vector<std::byte> stored;
  std::vector<float> values;
  Scratch scratch;
  const Index most = std::max<Index>(1, kReadValues / width);
  for (Index first = 0; first < some.samples; first += most) {
    const Range rows{first, std::min(most, some.samples - first)};
    const SampleFiles files(config.data.train, some, rows);  // not all at once: they may be in many files
    stored.resize(static_cast<std::size_t>(rows.count * files.row_bytes()));
    values.resize(static_cast<std::size_t>(rows.count * width));
    files.read(rows, stored.data(), scratch);
    to_float32(files.type(), stored.data(), values);
    if (config.data.normalise_samples.log1p) {
      const auto bad = std::ranges::find_if(values, [](float x) { return x <= -1; });
      if (bad != values.end())
        refuse_logarithm({config.data.train, some, NumbersOf::samples, first + (bad - values.begin()) / width});
    }
    for (Index i = 0; i < rows.count; ++i)
      fill_missing(Span(values).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width)),
                   some.sample.channels);
    visit(rows, ConstSpan(values));
  }
}

/// The numbers of HaarEnergies, a row per sample.
Table energies_of(const Config& config, const DatasetShape& some, const HaarEnergies& energies) {
  Table x{some.samples, energies.numbers(), {}};
  x.values.resize(static_cast<std::size_t>(x.rows * x.columns));
  const auto width = static_cast<std::size_t>(some.read_sample().per_sample());
  for_each_box(config, some, [&](Range rows, ConstSpan values) {
#pragma omp parallel for schedule(dynamic)
    for (Index i = 0; i < rows.count; ++i)
      energies.measure(values.subspan(static_cast<std::size_t>(i) * width, width),
                       std::span(x.values).subspan(static_cast<std::size_t>((rows.first + i) * x.columns),
                                                   static_cast<std::size_t>(x.columns)));
  });
  return x;
}

/// Logarithms of all columns but the last ones. What is zero is small beside the others of its column.
void take_logarithms(Table& x, Index columns) {
  for (Index column = 0; column < columns; ++column) {
    double mean = 0;
    for (Index row = 0; row < x.rows; ++row) mean += x.at(row, column) / static_cast<double>(x.rows);
    for (Index row = 0; row < x.rows; ++row) {
      double& value = x.at(row, column);
      value = mean > 0 ? std::log(value / mean + 1e-12) : 0;
    }
  }
}

/// Means over the channels of each group.
Table over_channels(const Table& x, Index channels) {
  Table pooled{x.rows, x.columns / channels, {}};
  pooled.values.resize(static_cast<std::size_t>(pooled.rows * pooled.columns));
  for (Index row = 0; row < x.rows; ++row)
    for (Index column = 0; column < x.columns; ++column)
      pooled.at(row, column / channels) += x.at(row, column) / static_cast<double>(channels);
  return pooled;
}

/// Whether each column goes where an averaged copy has this resolution: of the finest level, `per_group` columns for
/// each orientation, those with detail along an averaged axis. Bit b of an orientation is for the b-th last axis.
std::vector<bool> lost_columns(const Table& x, Index orientations, Index per_group, const Extent& resolution) {
  std::vector<bool> lost(static_cast<std::size_t>(x.columns));
  for (Index column = 0; column < orientations * per_group; ++column) {
    const Index orientation = column / per_group + 1;
    for (std::size_t b = 0; b < resolution.size(); ++b)
      if ((orientation >> b & 1) != 0 && resolution[resolution.size() - 1 - b] > 1)
        lost[static_cast<std::size_t>(column)] = true;
  }
  return lost;
}

Table without(const Table& x, const std::vector<bool>& lost) {
  Table rest{x.rows, std::ranges::count(lost, false), {}};
  for (Index row = 0; row < x.rows; ++row)
    for (Index column = 0; column < x.columns; ++column)
      if (!lost[static_cast<std::size_t>(column)]) rest.values.push_back(x.at(row, column));
  return rest;
}

/// On one rank.
DetailMeasurement measured(const Config& config, const DatasetShape& train, const Extent& resolution) {
  if (train.sample.axes == 0) return nothing_known("samples have no positions");
  if (train.label.axes > 0) return nothing_known("labels have positions, as samples have");
  if (train.label.per_sample() > kMostLabels)
    return nothing_known(fmt::format("there are more than {} labels per sample", kMostLabels));
  if (train.sample.channels > kMostChannels)
    return nothing_known(fmt::format("samples have more than {} channels", kMostChannels));
  DatasetShape some = train;
  if (const Box box = box_in(train.sample); box.count != train.sample.spatial) some.block = box;
  const HaarEnergies energies(some.read_sample(), config.data.normalise_samples.log1p);
  if (energies.levels() == 0) return nothing_known("samples have fewer than four positions along an axis");
  std::vector<Index> rows = drawn(train);
  if (config.data.train.not_finite == NotFiniteRule::skip) drop_not_finite(config.data.train, train, rows);
  const auto few = [&](Index count) {
    return nothing_known(
        fmt::format("{} training samples with labels are too few for that; it takes {}", count, kFewestRows));
  };
  if (std::ssize(rows) < kFewestRows) return few(std::ssize(rows));
  const SomeLabels labels = read_labels(config, train, rows);
  if (labels.y.rows < kFewestRows) return few(labels.y.rows);
  if (!changes(labels.y))
    return nothing_known(fmt::format("{} training samples all have the same labels", labels.y.rows));
  Table x = energies_of(config, of_rows(some, labels.rows), energies);
  const Index channels = train.sample.channels;
  take_logarithms(x, x.columns - channels);
  Index per_group = channels;
  if (x.columns > kMostColumns) {
    x = over_channels(x, channels);
    per_group = 1;
  }
  const std::vector<bool> lost = lost_columns(x, energies.finest_groups(), per_group, resolution);
  return {.why_not = {},
          .samples = x.rows,
          .without_finest = unexplained_share(without(x, lost), labels.y),
          .with_finest = unexplained_share(x, labels.y)};
}

}  // namespace

bool DetailMeasurement::loses() const {
  return known() && with_finest < kLost * without_finest && without_finest - with_finest > kNoticeable;
}

DetailMeasurement measure_detail(const Config& config, const DatasetShape& train, Comm& comm,
                                 const Extent& resolution) {
  DetailMeasurement found;
  collective_try_on_root(comm, [&] { found = measured(config, train, resolution); });
  std::vector<std::int64_t> bits{found.samples, std::bit_cast<std::int64_t>(found.without_finest),
                                 std::bit_cast<std::int64_t>(found.with_finest)};
  comm.broadcast(bits, 0);
  comm.broadcast(found.why_not, 0);
  found.samples = bits[0];
  found.without_finest = std::bit_cast<double>(bits[1]);
  found.with_finest = std::bit_cast<double>(bits[2]);
  return found;
}

}  // namespace mrmf
