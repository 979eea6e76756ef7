// Whether there is anything to learn from an array: not from row numbers, from one value throughout, from none.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "io/rows/row_source_and_reader.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/dataset_guess.hpp"

namespace mrmf {
namespace {

constexpr Index kNumbersAtOnce = Index{1} << 16;
constexpr Index kRowsFirst = 64;             // most labels have said by then what they are
constexpr Index kFewestCounted = 3;          // fewer numbers count nothing
constexpr Index kMostSeen = Index{1} << 20;  // numbers in any order that are told from each other
constexpr Index kMostWords = 256;            // as many classes as words are taken for

/// Whether numbers lie at one distance but for the rounding of float32, in which some may have been before.
class EvenSteps {
 public:
  void add(ExactNumber value) {
    even_ = even_ && std::isfinite(value);
    if (count_ == 0) first_ = value;
    if (even_ && count_ > 0) {
      const auto steps = static_cast<ExactNumber>(count_);
      const ExactNumber rise = value - first_, slack = kRounding * std::max(std::abs(first_), std::abs(value));
      least_ = std::max(least_, (rise - slack) / steps);
      most_ = std::min(most_, (rise + slack) / steps);
      even_ = least_ <= most_;
    }
    ++count_;
  }
  bool may_be() const { return even_; }
  /// Whether they do, and are not all the same.
  bool are() const { return even_ && count_ >= kFewestCounted && (least_ > 0 || most_ < 0); }

 private:
  static constexpr ExactNumber kRounding = 2.4e-7L;  // two numbers' in float32, twice
  bool even_ = true;
  Index count_ = 0;
  ExactNumber first_ = 0;
  ExactNumber most_ = std::numeric_limits<ExactNumber>::infinity(), least_ = -most_;  // what the distance may be
};

/// A column of one number per row, as it comes: whether it counts the rows, in their order or another.
class RowCount {
 public:
  /// `ordered`: whether the rows have an order that means something, as those of an array have.
  RowCount(Index rows, bool ordered) : rows_(rows), ordered_(ordered) {}

  void add(ExactNumber value) {
    if (ordered_ && even_.may_be()) even_.add(value);
    whole_ = whole_ && std::isfinite(value) && value == std::floor(value);
    if (!may_count_whole()) return;
    if (count_ == 0) first_ = least_ = most_ = value;
    if (count_ == 1) step_ = value - last_;
    steady_ = steady_ && (count_ < 2 || value - last_ == step_) && (count_ < 1 || step_ != 0);
    least_ = std::min(least_, value), most_ = std::max(most_, value);
    last_ = value;
    ++count_;
    distinct_ = distinct_ && rows_ <= kMostSeen && most_ - least_ < static_cast<ExactNumber>(rows_) &&
                seen_.insert(static_cast<long long>(value)).second;
  }
  bool may_count() const { return may_count_whole() || (ordered_ && even_.may_be()); }
  bool whole() const { return whole_; }
  /// Whether the numbers lie at one distance: whole ones exactly.
  bool steady() const { return whole_ ? steady_ && count_ >= kFewestCounted : ordered_ && even_.are(); }
  bool counts() const {
    const bool all = distinct_ && most_ - least_ + 1 == static_cast<ExactNumber>(count_);
    return whole_ && count_ >= kFewestCounted && ((steady_ && std::abs(step_) == 1) || all);
  }
  ExactNumber least() const { return least_; }

 private:
  bool may_count_whole() const { return whole_ && (steady_ || distinct_); }

  Index rows_, count_ = 0;
  bool ordered_, whole_ = true, steady_ = true, distinct_ = true;
  EvenSteps even_;
  ExactNumber first_ = 0, last_ = 0, step_ = 0, least_ = 0, most_ = 0;
  std::unordered_set<long long> seen_;
};

/// What numbers say, row by row, until they have said that they differ and count nothing.
class NumberUse {
 public:
  /// `each`: whether every number is a label, as in masks; else all of a row are one.
  NumberUse(Index width, bool each) : width_(each ? 1 : width), columns_(width == 1) {}

  void begin_column(Index rows, bool ordered) { column_.emplace(rows, ordered); }
  void end_column() {
    if (!columns_ || !column_) return;
    counted_ = counted_ && column_->counts();
    steady_ = steady_ && column_->steady();
    whole_ = whole_ && column_->whole();
    if (!from_) from_ = column_->least();
    columns_ = counted_ || steady_;
  }
  void add(ExactNumber value) {
    if (columns_) column_->add(value);
    const auto at = static_cast<std::size_t>(filled_++ % width_);
    if (std::isnan(value)) return;
    if (known_.size() <= at) known_.resize(static_cast<std::size_t>(width_));
    if (!known_[at]) known_[at] = value;
    same_ = same_ && *known_[at] == value;
  }
  bool open() const { return same_ || (columns_ && column_->may_count()); }

  /// `declared`: attributes say which numbers are missing.
  Learnable result(bool declared) const {
    if (known_.empty() && filled_ == 0) return {"is empty"};
    if (known_.empty())
      return {declared ? "is missing everywhere, by attributes such as _FillValue" : "is NaN everywhere", false, false,
              false, true};
    if (same_ && width_ == 1) return {fmt::format("is {:g} everywhere", static_cast<double>(*known_.front()))};
    if (same_) return {"is the same in all rows"};
    if (columns_ && counted_)
      return {fmt::format("counts the rows from {:.0f} on", static_cast<double>(from_.value_or(0)))};
    const bool spaced = columns_ && steady_;
    return {"", spaced, spaced, spaced && !whole_};
  }

 private:
  Index width_, filled_ = 0;
  bool columns_, counted_ = true, steady_ = true, whole_ = true, same_ = true;
  std::optional<RowCount> column_;
  std::optional<ExactNumber> from_;
  std::vector<std::optional<ExactNumber>> known_;
};

// Some rows at a time, first a few. `read` gets the first and how many, and says whether to go on.
template <class Read>
void read_some(Index all, Index width, const Read& read) {
  const Index most = std::max<Index>(1, kNumbersAtOnce / std::max<Index>(1, width));
  Index some = std::min(kRowsFirst, most);
  for (Index row = 0; row < all; some = std::min(4 * some, most)) {
    const Index count = std::min(some, all - row);
    if (!read(row, count)) return;
    row += count;
  }
}

void add_numbers(const RowSource& rows, NumberUse& use) {
  const Index width = rows.row_elements();
  if (width == 0) return;
  std::vector<std::byte> raw;
  read_some(rows.shape().front(), width, [&](Index first, Index count) {
    raw.resize(static_cast<std::size_t>(count * rows.row_bytes()));
    rows.read(first, count, raw.data());
    for (Index i = 0; i < count * width; ++i) use.add(exact_number_at(rows.type(), raw.data(), i));
    return use.open();
  });
}

Learnable use_of_words(const RowSources& sources, std::size_t files) {
  std::set<std::string> different;
  Index texts = 0;
  const auto many = [&] { return std::ssize(different) > kMostWords; };
  for (std::size_t file = 0; file < files && !many(); ++file) {
    const auto open = sources.at(file);
    const RowSource& rows = *open->front();
    read_some(rows.shape().front(), rows.row_elements(), [&](Index first, Index count) {
      for (std::string& word : rows.words(first, count)) ++texts, different.insert(std::move(word));
      return !many();
    });
  }
  if (different.size() > 1) return {"", many() || 2 * std::ssize(different) > texts};
  if (different.empty() || different.begin()->empty()) return {"holds empty texts alone"};
  return {"is \"" + *different.begin() + "\" everywhere"};
}

}  // namespace

Learnable learnable_from(const FileArray& array, const std::vector<std::string>& paths, const DatasetGuess& guess) {
  DatasetSpec spec;
  spec.files = paths;
  spec.packing = guess.packing;
  spec.missing = MissingRule::fill;
  spec.rows = guess.rows;
  spec.groups = guess.groups;
  const bool each = array.shape.size() > 2;
  const bool by_file = guess.rows == RowsBy::axis;  // else rows are counted over all files
  try {
    const RowSources sources(spec, nullptr, {array.name}, {.words = true});
    if (array.words) return use_of_words(sources, paths.size());
    NumberUse use(array.per_row(), each);
    if (!by_file) use.begin_column(array.rows(), false);
    bool declared = false;
    for (std::size_t file = 0; file < paths.size() && (file == 0 || use.open()); ++file) {
      const auto open = sources.at(file);
      declared = declared || open->front()->packing().declared;
      if (by_file) use.begin_column(open->front()->shape().front(), true);
      add_numbers(*open->front(), use);
      if (by_file) use.end_column();
    }
    if (!by_file) use.end_column();
    return use.result(declared);
  } catch (const DataError&) {
    return {};
  }
}

}  // namespace mrmf
