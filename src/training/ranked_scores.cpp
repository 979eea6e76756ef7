#include "src/training/ranked_scores.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace mrmf {
namespace {

// Twice the number of pairs of a score and a smaller one of `sorted`, and once those of equal ones.
std::int64_t twice_above(const std::vector<float>& scores, const std::vector<float>& sorted) {
  std::int64_t pairs = 0;
  for (const float score : scores) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), score);
    pairs += (first - sorted.begin()) + (last - sorted.begin());
  }
  return pairs;
}

// All ranks' values, sorted, of which there are `all`, and this rank's begin at `first`.
std::vector<float> gathered(const std::vector<float>& own, std::int64_t first, std::int64_t all, Comm& team) {
  std::vector<std::int64_t> bits(static_cast<std::size_t>(all));
  for (std::size_t i = 0; i < own.size(); ++i)
    bits[static_cast<std::size_t>(first) + i] = std::bit_cast<std::int32_t>(own[i]);
  team.sum(std::span(bits));
  std::vector<float> values(bits.size());
  std::ranges::transform(bits, values.begin(),
                         [](std::int64_t b) { return std::bit_cast<float>(static_cast<std::int32_t>(b)); });
  std::ranges::sort(values);
  return values;
}

}  // namespace

void RankedScores::add(Index c, float score, bool is_of_class) {
  Sides& sides = classes_[static_cast<std::size_t>(c)];
  // NaN of a model that has diverged has no place in an order.
  const float ordered = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  (is_of_class ? sides.yes : sides.no).push_back(ordered);
}

void RankedScores::take(RankedScores& other) {
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    Sides &to = classes_[c], &from = other.classes_[c];
    to.yes.insert(to.yes.end(), from.yes.begin(), from.yes.end());
    to.no.insert(to.no.end(), from.no.begin(), from.no.end());
  }
  other.clear();
}

void RankedScores::clear() {
  for (Sides& sides : classes_) {
    sides.yes.clear();
    sides.no.clear();
    sides.summed = false;
  }
}

void RankedScores::sum(Comm& team) {
  const auto ranks = static_cast<std::size_t>(team.size()), rank = static_cast<std::size_t>(team.rank());
  std::vector<std::int64_t> counts(2 * ranks * classes_.size());  // [class][side][rank]
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    counts[2 * c * ranks + rank] = std::ssize(classes_[c].yes);
    counts[(2 * c + 1) * ranks + rank] = std::ssize(classes_[c].no);
  }
  team.sum(std::span(counts));
  std::vector<std::int64_t> pairs(classes_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    Sides& sides = classes_[c];
    const auto below = [&](std::size_t side, std::size_t end) {
      std::int64_t all = 0;
      for (std::size_t r = 0; r < end; ++r) all += counts[(2 * c + side) * ranks + r];
      return all;
    };
    sides.all_yes = below(0, ranks), sides.all_no = below(1, ranks);
    const std::size_t few = sides.all_yes <= sides.all_no ? 0 : 1;
    const std::vector<float> sorted =
        gathered(few == 0 ? sides.yes : sides.no, below(few, rank), below(few, ranks), team);
    // Where the yes are gathered, this rank's no are compared with them: pairs of a larger no, of which the rest is.
    pairs[c] = few == 1 ? twice_above(sides.yes, sorted)
                        : 2 * std::ssize(sides.no) * sides.all_yes - twice_above(sides.no, sorted);
  }
  team.sum(std::span(pairs));
  for (std::size_t c = 0; c < classes_.size(); ++c) classes_[c].pairs = pairs[c], classes_[c].summed = true;
}

double RankedScores::area(Index c) const {
  const Sides& sides = classes_[static_cast<std::size_t>(c)];
  const auto share = [](double pairs, double yes, double no) {
    return yes > 0 && no > 0 ? pairs / (2 * yes * no) : std::numeric_limits<double>::quiet_NaN();
  };
  if (sides.summed)
    return share(static_cast<double>(sides.pairs), static_cast<double>(sides.all_yes),
                 static_cast<double>(sides.all_no));
  std::vector<float> sorted = sides.no;
  std::ranges::sort(sorted);
  return share(static_cast<double>(twice_above(sides.yes, sorted)), static_cast<double>(sides.yes.size()),
               static_cast<double>(sides.no.size()));
}

}  // namespace mrmf
