#include "src/ensemble/spec_and_design.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr Index kMostListBytes = Index{4} << 30;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kUtf16Mark = "\xFF\xFE";

/// Reads CSV record by record.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
    if (text_.starts_with(kUtf16Mark)) throw DataError(path_ + ": is text in UTF-16; save it in UTF-8");
    const std::string_view header = text_.substr(0, text_.find_first_of("\r\n"));
    for (const char candidate : {',', ';', '\t'})
      if (header.find(candidate) != std::string_view::npos) {
        separator_ = candidate;
        break;
      }
  }

  /// The next record that is not blank; false at the end.
  bool next(std::vector<std::string>& cells) {
    while (at_ < text_.size()) {
      read_record(cells);
      if (cells.size() > 1 || !cells.front().empty()) return true;
    }
    return false;
  }
  /// Where the last record is.
  std::string where() const { return fmt::format("{}:{}", path_, begun_); }

 private:
  void read_record(std::vector<std::string>& cells) {
    begun_ = line_;
    cells.clear();
    bool more = true;
    while (more) {
      skip_spaces();
      cells.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted_cell() : plain_cell());
      more = at_ < text_.size() && text_[at_] == separator_;
      if (more) ++at_;
    }
    end_line();
  }

  bool is_space(char c) const { return (c == ' ' || c == '\t') && c != separator_; }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  std::string plain_cell() {
    const std::array ends{separator_, '\r', '\n'};
    const std::size_t end = std::min(text_.find_first_of({ends.data(), ends.size()}, at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    while (!cell.empty() && is_space(cell.back())) cell.pop_back();
    return cell;
  }

  std::string quoted_cell() {
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[++at_];
      } else {
        ++at_;
        skip_spaces();
        if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\r' && text_[at_] != '\n')
          throw DataError(where() + ": something follows a closing quote; quotes within quotes are written twice");
        const auto inner = cell.find_first_not_of(" \t");
        cell.erase(0, std::min(inner, cell.size()));
        cell.erase(cell.find_last_not_of(" \t") + 1);
        return cell;
      }
    }
    throw DataError(where() + ": a quote is not closed");
  }

  // "\n", "\r\n" or "\r".
  void end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& path_;
  char separator_ = ',';
  std::size_t at_ = 0, line_ = 1, begun_ = 1;
};

void add(ListColumn& column, std::string value, const std::string& where) {
  if (value.empty()) throw DataError(fmt::format("{}: '{}' has no value", where, column.key));
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc{} && end == value.data() + value.size() && !std::isfinite(number))
    throw DataError(fmt::format("{}: '{}' is {}; give a finite number", where, column.key, value));
  const bool first = column.not_a_number == column.values.size();
  if (first && number_in_text(value))
    ++column.not_a_number;
  else if (first)
    column.where = where;
  column.values.push_back(std::move(value));
}

std::vector<ListColumn> read_csv(const std::string& path) {
  const std::string text = read_file(path, kMostListBytes);
  CsvReader reader(text, path);
  std::vector<std::string> cells;
  if (!reader.next(cells)) throw DataError(path + ": is empty; its first line names the keys");
  std::vector<ListColumn> columns;
  for (const std::string& key : cells) {
    if (key.empty()) throw DataError(reader.where() + ": a column has no name; the first line names the keys");
    columns.push_back({key, {}, 0, path});
  }
  while (reader.next(cells)) {
    if (cells.size() != columns.size())
      throw DataError(
          fmt::format("{}: {} values, and the header names {} keys", reader.where(), cells.size(), columns.size()));
    for (std::size_t k = 0; k < cells.size(); ++k) add(columns[k], std::move(cells[k]), reader.where());
  }
  return columns;
}

// A data set per key, or one with a column per key.
std::vector<ListColumn> read_hdf5(const DesignSpec& design) {
  std::vector<ListColumn> columns;
  const auto add_number = [&](std::size_t k, double value, std::size_t row) {
    add(columns[k], fmt::format("{}", value), fmt::format("{}: row {}", design.file, row));
  };
  if (design.dataset.empty()) {
    for (const std::string& key : design.columns.empty() ? names_of(design.file).datasets : design.columns) {
      const DatasetNumbers numbers = read_stored_numbers(design.file, key);
      columns.push_back({key, {}, 0, design.file});
      for (std::size_t i = 0; i < numbers.values.size(); ++i) add_number(columns.size() - 1, numbers.values[i], i);
      if (columns.back().values.size() != columns.front().values.size())
        throw DataError(fmt::format("{}: '{}' has {} values and '{}' has {}", design.file, key,
                                    columns.back().values.size(), columns.front().key, columns.front().values.size()));
    }
    return columns;
  }
  const DatasetNumbers numbers = read_stored_numbers(design.file, design.dataset);
  if (numbers.shape.size() != 2 || numbers.shape[1] != std::ssize(design.columns))
    throw ConfigError(fmt::format("design.columns names {} keys; '{}' in {} needs one for each of its columns",
                                  design.columns.size(), design.dataset, design.file));
  for (const std::string& key : design.columns) columns.push_back({key, {}, 0, design.file});
  for (std::size_t i = 0; i < numbers.values.size(); ++i)
    add_number(i % columns.size(), numbers.values[i], i / columns.size());
  return columns;
}

}  // namespace

std::optional<double> number_in_text(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) return {};
  return number;
}

std::vector<ListColumn> read_list_columns(const DesignSpec& design) {
  std::vector<ListColumn> columns = is_hdf5(design.file) ? read_hdf5(design) : read_csv(design.file);
  if (columns.empty() || columns.front().values.empty()) throw DataError(design.file + ": has no points");
  for (std::size_t k = 0; k < columns.size(); ++k)
    for (std::size_t other = 0; other < k; ++other)
      if (columns[k].key == columns[other].key)
        throw ConfigError(fmt::format("{}: the key '{}' is there twice", design.file, columns[k].key));
  return columns;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",;\t\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

namespace {

constexpr std::uint64_t kShiftStream = 0x736F626F6C, kStratumStream = 0x6C68, kWithinStream = 0x6C6870;
constexpr std::size_t kMostWords = 1000;  // different words in a list's column
constexpr int kBits = 32;

// Each coordinate has a primitive polynomial, with all its bits, and the first direction numbers. The first coordinate
// is van der Corput's.
struct Directions {
  std::uint32_t polynomial;
  std::array<std::uint32_t, 8> first;
};
constexpr std::array<Directions, kMostSobolKeys> kDirections{{
    {1, {1}},
    {3, {1}},
    {7, {1, 3}},
    {11, {1, 3, 1}},
    {13, {1, 1, 1}},
    {19, {1, 1, 3, 3}},
    {25, {1, 3, 5, 13}},
    {37, {1, 1, 5, 5, 17}},
    {41, {1, 1, 5, 5, 5}},
    {47, {1, 1, 7, 11, 19}},
    {55, {1, 1, 5, 1, 1}},
    {59, {1, 1, 1, 3, 11}},
    {61, {1, 3, 5, 5, 31}},
    {67, {1, 3, 3, 9, 7, 49}},
    {91, {1, 1, 1, 15, 21, 21}},
    {97, {1, 3, 1, 13, 27, 49}},
    {103, {1, 1, 1, 15, 7, 5}},
    {109, {1, 3, 1, 15, 13, 25}},
    {115, {1, 1, 5, 5, 19, 61}},
    {131, {1, 3, 7, 11, 23, 15, 103}},
    {137, {1, 3, 7, 13, 13, 15, 69}},
    {143, {1, 1, 3, 13, 7, 35, 63}},
    {145, {1, 3, 5, 9, 1, 25, 53}},
    {157, {1, 3, 1, 13, 9, 35, 107}},
    {167, {1, 3, 1, 5, 27, 61, 31}},
    {171, {1, 1, 5, 11, 19, 41, 61}},
    {185, {1, 3, 5, 3, 3, 13, 69}},
    {191, {1, 1, 7, 13, 1, 19, 1}},
    {193, {1, 3, 7, 5, 13, 19, 59}},
    {203, {1, 1, 3, 9, 25, 29, 41}},
    {211, {1, 3, 5, 13, 23, 1, 55}},
    {213, {1, 3, 7, 3, 13, 59, 17}},
    {229, {1, 3, 1, 3, 5, 53, 69}},
    {239, {1, 1, 5, 5, 23, 33, 13}},
    {241, {1, 1, 7, 7, 1, 61, 123}},
    {247, {1, 1, 7, 9, 13, 61, 49}},
    {253, {1, 3, 3, 5, 3, 55, 33}},
    {285, {1, 3, 1, 15, 31, 13, 49, 245}},
    {299, {1, 3, 5, 15, 31, 59, 63, 97}},
    {301, {1, 3, 1, 11, 11, 11, 77, 249}},
}};

using DirectionNumbers = std::array<std::uint32_t, kBits>;

// Bratley and Fox (1988): m_i is made of the degree's last numbers, then shifted to the top of a word.
DirectionNumbers direction_numbers(const Directions& of) {
  DirectionNumbers v{};
  const int degree = std::bit_width(of.polynomial) - 1;
  for (int i = 0; i < kBits; ++i) {
    std::uint32_t m = 1;
    if (degree > 0) {
      if (i < degree) {
        m = of.first[static_cast<std::size_t>(i)];
      } else {
        const auto before = [&](int back) { return v[static_cast<std::size_t>(i - back)] >> (kBits - 1 - (i - back)); };
        m = before(degree) ^ (before(degree) << degree);
        for (int k = 1; k < degree; ++k)
          if ((of.polynomial >> (degree - k) & 1) != 0) m ^= before(k) << k;
      }
    }
    v[static_cast<std::size_t>(i)] = m << (kBits - 1 - i);
  }
  return v;
}

const std::array<DirectionNumbers, kMostSobolKeys>& all_direction_numbers() {
  static const auto numbers = [] {
    std::array<DirectionNumbers, kMostSobolKeys> all{};
    for (std::size_t axis = 0; axis < kMostSobolKeys; ++axis) all[axis] = direction_numbers(kDirections[axis]);
    return all;
  }();
  return numbers;
}

std::vector<Point> in_ranges(const std::vector<Axis>& axes, std::vector<Point> points) {
  for (Point& point : points)
    for (std::size_t k = 0; k < axes.size(); ++k) point[k] = coordinate(axes[k], point[k]);
  return points;
}

// How many values an axis has; infinity of a range.
double values_of(const Axis& axis) {
  if (!axis.values.empty()) return static_cast<double>(axis.values.size());
  if (axis.count > 0) return axis.count;
  return axis.whole ? axis.to - axis.from + 1 : std::numeric_limits<double>::infinity();
}

[[noreturn]] void too_few(const EnsembleSpec& spec, const std::string& what, double there) {
  throw ConfigError(fmt::format("{}: {} has {:.0f} values, fewer than design.members = {}", spec.origin, what, there,
                                spec.design.members));
}

/// All combinations of the axes' values.
struct Combinations {
  double count = 1;
  std::string text;  ///< "2 x 3"
  explicit Combinations(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) {
      count *= values_of(axis);
      text += fmt::format("{}{:.0f}", text.empty() ? "" : " x ", values_of(axis));
    }
  }
};

std::vector<Point> grid_points(const EnsembleSpec& spec) {
  const DesignSpec& design = spec.design;
  const auto [all, product] = Combinations(design.axes);
  const double wanted = design.members > 0 ? static_cast<double>(design.members) : all;
  if (wanted > kMostMembers)
    throw ConfigError(fmt::format("{}: the design's grid of {} has {:g} points; {:g} are the most of an ensemble",
                                  spec.origin, product, all, kMostMembers));
  if (static_cast<double>(design.members) > all) too_few(spec, "the design's grid of " + product, all);
  const Index count = design.members > 0 ? design.members : static_cast<Index>(all);
  std::vector<Point> points(static_cast<std::size_t>(count), Point(design.axes.size()));
  for (Index i = 0; i < count; ++i) {
    Index rest = i;
    for (std::size_t k = design.axes.size(); k-- > 0;) {  // the last key changes fastest
      const auto values = static_cast<Index>(values_of(design.axes[k]));
      const double share = values > 1 && design.axes[k].values.empty()
                               ? static_cast<double>(rest % values) / static_cast<double>(values - 1)
                               : (static_cast<double>(rest % values) + 0.5) / static_cast<double>(values);
      points[static_cast<std::size_t>(i)][k] = coordinate(design.axes[k], share);
      rest /= values;
    }
  }
  return points;
}

/// The axis of a list's column. Words are numbered as they come.
Axis axis_of(const ListColumn& column, std::vector<double>& coordinates) {
  Axis axis;
  axis.key = column.key, axis.where = column.where;
  axis.words = column.not_a_number < column.values.size();
  for (const std::string& value : column.values) {
    if (!axis.words) {
      coordinates.push_back(*number_in_text(value));
      continue;
    }
    const auto known = std::ranges::find(axis.values, value);
    coordinates.push_back(static_cast<double>(known - axis.values.begin()));
    if (known == axis.values.end()) axis.values.push_back(value);
    if (axis.values.size() > kMostWords)
      throw DataError(fmt::format("{}: '{}' has more than {} different words", column.where, axis.key, kMostWords));
  }
  axis.from = std::ranges::min(coordinates), axis.to = std::ranges::max(coordinates);
  return axis;
}

std::vector<Point> list_points(EnsembleSpec& spec) {
  DesignSpec& design = spec.design;
  std::vector<ListColumn> columns = read_list_columns(design);
  const std::size_t there = columns.front().values.size();
  if (design.members > static_cast<Index>(there)) too_few(spec, design.file, static_cast<double>(there));
  const std::size_t count = design.members > 0 ? static_cast<std::size_t>(design.members) : there;
  std::vector<Point> points(count, Point(columns.size()));
  for (std::size_t k = 0; k < columns.size(); ++k) {
    ListColumn& column = columns[k];
    if (spec.simulate && column.not_a_number < there)
      throw DataError(fmt::format("{}: '{}' is no number", column.where, column.values[column.not_a_number]));
    column.values.resize(count), column.not_a_number = std::min(column.not_a_number, count);
    std::vector<double> coordinates;
    design.axes.push_back(axis_of(column, coordinates));
    for (std::size_t i = 0; i < count; ++i) points[i][k] = coordinates[i];
  }
  place_axes(spec);
  for (std::size_t k = 0; k < columns.size(); ++k)
    for (std::size_t i = 0; i < count; ++i)
      if (const Axis& axis = design.axes[k]; axis.whole && !axis.words && points[i][k] != std::round(points[i][k]))
        throw DataError(
            fmt::format("{}: '{}' of point {} is {}; it takes whole numbers", design.file, axis.key, i, points[i][k]));
  return points;
}

}  // namespace

std::uint32_t sobol_bits(std::uint64_t index, std::size_t axis) {
  const DirectionNumbers& v = all_direction_numbers()[axis];
  std::uint32_t bits = 0;
  for (std::uint64_t gray = index ^ (index >> 1); gray != 0; gray &= gray - 1)
    bits ^= v[static_cast<std::size_t>(std::countr_zero(gray))];
  return bits;
}

std::vector<Point> sobol_points(std::size_t axes, Index first, Index count, std::uint64_t seed) {
  std::vector<std::uint32_t> shift;
  for (std::size_t k = 0; k < axes; ++k) shift.push_back(Rng(mix(seed, k, kShiftStream)).next());
  std::vector<Point> points(static_cast<std::size_t>(count), Point(axes));
  for (Index i = 0; i < count; ++i)
    for (std::size_t k = 0; k < axes; ++k)
      points[static_cast<std::size_t>(i)][k] =
          (static_cast<double>(sobol_bits(static_cast<std::uint64_t>(first + i), k) ^ shift[k]) + 0.5) * 0x1.0p-32;
  return points;
}

std::vector<Point> latin_hypercube(std::size_t axes, Index count, std::uint64_t seed) {
  std::vector<Point> points(static_cast<std::size_t>(count), Point(axes));
  std::vector<Index> strata(points.size());
  for (std::size_t k = 0; k < axes; ++k) {
    std::iota(strata.begin(), strata.end(), Index{0});
    Rng order(mix(seed, k, kStratumStream)), within(mix(seed, k, kWithinStream));
    for (std::size_t i = strata.size(); i > 1; --i) std::swap(strata[i - 1], strata[order.below(i)]);
    for (std::size_t i = 0; i < strata.size(); ++i)
      points[i][k] = (static_cast<double>(strata[i]) + within.uniform()) / static_cast<double>(count);
  }
  return points;
}

double coordinate(const Axis& axis, double share) {
  if (!axis.values.empty()) {
    const auto values = static_cast<double>(axis.values.size());
    const auto index = static_cast<std::size_t>(std::clamp(std::floor(share * values), 0.0, values - 1));
    return axis.words ? static_cast<double>(index) : number_in_text(axis.values[index]).value();
  }
  if (axis.whole && axis.count == 0) {  // every number has a stratum of its own
    const double end = axis.to + 1;
    const double at =
        axis.logarithmic ? axis.from * std::pow(end / axis.from, share) : axis.from + share * (end - axis.from);
    return std::clamp(std::floor(at), axis.from, axis.to);
  }
  const double at =
      axis.logarithmic ? axis.from * std::pow(axis.to / axis.from, share) : axis.from + share * (axis.to - axis.from);
  return axis.whole ? std::round(at) : std::clamp(at, axis.from, axis.to);
}

double share_of(const Axis& axis, double at) {
  if (!(axis.to > axis.from)) return 0.5;
  const double share = axis.logarithmic ? std::log(at / axis.from) / std::log(axis.to / axis.from)
                                        : (at - axis.from) / (axis.to - axis.from);
  return std::clamp(share, 0.0, 1.0);
}

std::vector<Point> make_design(EnsembleSpec& spec) {
  const DesignSpec& design = spec.design;
  if (design.kind == DesignKind::latin_hypercube || design.kind == DesignKind::sobol) {
    const Combinations all(design.axes);
    if (static_cast<double>(design.members) > all.count) too_few(spec, "a design of " + all.text, all.count);
  }
  switch (design.kind) {
    case DesignKind::latin_hypercube:
      return in_ranges(design.axes, latin_hypercube(design.axes.size(), design.members, spec.seed));
    case DesignKind::sobol:
      if (design.axes.size() > kMostSobolKeys)
        throw ConfigError(
            fmt::format("{}: design.kind = \"sobol\" has {} keys, and {} are the most; take \"latin-hypercube\"",
                        spec.origin, design.axes.size(), kMostSobolKeys));
      return in_ranges(design.axes, sobol_points(design.axes.size(), 0, design.members, spec.seed));
    case DesignKind::grid: return grid_points(spec);
    case DesignKind::list: return list_points(spec);
  }
  MRMF_CHECK(false, "a design of no kind");
}

std::uint64_t checksum(const std::vector<Point>& points) {
  std::uint64_t sum = 0;
  for (const Point& point : points) sum = XXH3_64bits_withSeed(point.data(), point.size() * sizeof(double), sum);
  return sum;
}

std::string design_csv(const EnsembleSpec& spec, const std::vector<Point>& points) {
  std::string text;
  for (const Axis& axis : spec.design.axes) text += (text.empty() ? "" : ",") + csv_cell(axis.key);
  text += "\n";
  for (const Point& point : points) {
    for (std::size_t k = 0; k < point.size(); ++k)
      text += (k > 0 ? "," : "") + csv_cell(spec.design.axes[k].text(point[k]));
    text += "\n";
  }
  return text;
}

}  // namespace mrmf
