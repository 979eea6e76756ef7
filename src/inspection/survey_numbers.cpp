// What a survey says of numbers in files: how many files are packed in which way, and single numbers far from all
// others, which may say that there is none. Declared in survey.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "src/inspection/survey.hpp"

namespace mrmf {
namespace {

// Adds what this rank's files are.
void add_packings(const RowSource& rows, PackingCount& count) {
  rows.for_each_packing([&](const Packing& packing) {
    if (const std::string text = packing.text(); !text.empty()) ++count.texts[text];
    if (!packing.not_applied.empty()) ++count.not_applied[packing.not_applied];
    if (packing.scaled()) ++count.scaled;
    if (packing.whole()) ++count.whole;
    if (packing.declared) ++count.declared;
  });
}

using Counted = std::map<std::string, Index>;

// The texts of each name, of all ranks.
void share(const std::vector<PackingCount>& own, Counted PackingCount::*texts, std::vector<PackingCount>& all,
           Comm& comm) {
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string lines;  // for each text: which name, how often, and the text
    for (std::size_t i = 0; i < own.size() && rank == comm.rank(); ++i)
      for (const auto& [text, count] : own[i].*texts) lines += fmt::format("{} {} {}\n", i, count, text);
    comm.broadcast(lines, rank);
    std::istringstream in(lines);
    std::size_t name = 0;
    Index count = 0;
    for (std::string text; in >> name >> count && std::getline(in >> std::ws, text);) (all[name].*texts)[text] += count;
  }
}

// Some of them, the most frequent first: each with how many it holds for, and `others` of those that are not told.
std::vector<std::string> frequent(const Counted& counted, const PackingCount& count, const std::string& others) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<Index, std::string>> sorted;
  for (const auto& [text, number] : counted) sorted.emplace_back(number, text);
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<Index, std::string>::first);
  std::vector<std::string> texts;
  Index told = 0, all = 0;
  for (const auto& [number, text] : sorted) {
    all += number;
    if (texts.size() == kMost) continue;
    texts.push_back((number == count.all ? "" : fmt::format("{} of {} {}: ", number, count.all, count.what)) + text);
    told += number;
  }
  if (all > told) texts.push_back(fmt::format("{} of {} {}: {}", all - told, count.all, count.what, others));
  return texts;
}

}  // namespace

std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm) {
  const RowSources sources(spec, nullptr, names, {.words = true});
  std::vector<PackingCount> own(names.size()), all(names.size());
  const bool groups = spec.rows == RowsBy::groups;
  const Range files = piece(std::ssize(spec.files), comm.rank(), comm.size());
  collective_try(comm, [&] {
    for (Index file = files.first; file < files.first + files.count; ++file) {
      const auto open = sources.open(static_cast<std::size_t>(file));
      for (std::size_t i = 0; i < names.size(); ++i) {
        add_packings(*(*open)[i], own[i]);
        own[i].all += groups ? (*open)[i]->shape().front() : 1;
      }
    }
  });
  std::vector<std::int64_t> sums;
  for (const PackingCount& one : own) sums.insert(sums.end(), {one.all, one.scaled, one.whole, one.declared});
  comm.sum(std::span(sums));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = {{}, sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3], groups ? "groups" : "files", {}};
  share(own, &PackingCount::texts, all, comm);
  share(own, &PackingCount::not_applied, all, comm);
  return all;
}

std::vector<std::string> packing_texts(const PackingCount& count) {
  return frequent(count.texts, count, "by attributes of their own");
}

std::vector<std::string> not_applied_texts(const std::string& name, const PackingCount& count) {
  std::vector<std::string> texts = frequent(count.not_applied, count, "other attributes, which are not applied either");
  const bool all = count.not_applied.size() == 1 && count.not_applied.begin()->second == count.all;
  for (std::string& text : texts) text.insert(0, "'" + name + (all ? "': " : "' in "));
  return texts;
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

namespace {

constexpr Index kRows = 64, kElements = Index{1} << 22;  // looked at
constexpr Index kFewestTimes = 3;                        // times
constexpr double kRangesApart = 5;                       // ranges of all others

/// The smallest number of a channel, how often it occurs, and the one after it.
struct End {
  double value = std::numeric_limits<double>::infinity(), next = value;
  Index count = 0;
  void add(double x) {
    if (x < value) {
      next = value, value = x, count = 1;
    } else if (x == value) {
      ++count;
    } else {
      next = std::min(next, x);
    }
  }
};

/// Whether a number may be one that programs write where there is none: background, saturation and peaks that are
/// scaled to 1 are not. float32 has the largest integers of 32 and 64 bits as powers of two.
bool may_be_mark(double value) {
  const auto is_power = [](double x) { return std::exp2(std::round(std::log2(x))) == x; };
  constexpr double whole_floats = 1 << 24;
  const bool saturated = value >= 255 && (is_power(value + 1) || (value >= whole_floats && is_power(value)));
  return value < -1 || (value >= 900 && !saturated);
}

struct Channel {
  End low, high;  ///< ends of the numbers, and of their negatives
  Index count = 0;
  void add(double x) {
    if (!std::isfinite(x)) return;
    ++count;
    low.add(x);
    high.add(-x);
  }
  /// The number that is far from all others, and their range.
  struct Far {
    double value, from, to;
    Index times;
  };
  std::optional<Far> far() const {
    const auto is_far = [](double gap, double range) { return range > 0 && gap > kRangesApart * range; };
    if (low.count >= kFewestTimes && may_be_mark(low.value) && is_far(low.next - low.value, -high.value - low.next))
      return Far{low.value, low.next, -high.value, low.count};
    if (high.count >= kFewestTimes && may_be_mark(-high.value) &&
        is_far(high.next - high.value, -high.next - low.value))
      return Far{-high.value, low.value, -high.next, high.count};
    return {};
  }
};

}  // namespace

std::string far_value_text(const Numbers& numbers, const std::string& name) {
  std::vector<Channel> channels(static_cast<std::size_t>(numbers.channels));
  const auto look_at = [&](ConstSpan row) {
    std::size_t c = 0;
    for (const float value : row) {
      channels[c].add(value);
      if (++c == channels.size()) c = 0;
    }
  };
  const Index most = std::max<Index>(1, kElements / (numbers.positions * numbers.channels));
  if (numbers.positions == 1) {  // rows of few numbers, which are read together
    const Index rows = std::min(numbers.samples, most);
    const NumberReader read = numbers.open({0, rows});
    for (Index row = 0; row < rows; ++row) look_at(read(row));
  } else {
    const Index rows = std::min({kRows, numbers.samples, most});
    for (Index i = 0; i < rows; ++i) {
      const Index row = i * numbers.samples / rows;
      look_at(numbers.open({row, 1})(row));
    }
  }
  for (std::size_t c = 0; c < channels.size(); ++c)
    if (const auto far = channels[c].far())
      return fmt::format(
          "{} stands {} times among {} numbers of '{}'{} that were looked at, and all others are {:g} to {:g}: if it "
          "marks missing numbers, give the data set the attribute _FillValue = {}, or store NaN",
          static_cast<float>(far->value), far->times, channels[c].count, name,
          channels.size() > 1 ? fmt::format(" (channel {})", c) : "", far->from, far->to,
          static_cast<float>(far->value));
  return "";
}

}  // namespace mrmf
