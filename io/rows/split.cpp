#include "io/rows/split.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "io/rows/sample_order.hpp"
#include "io/rows/split_column.hpp"
#include "io/rows/split_groups.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

/// The rows with the smallest hashes, the smallest `first` of them aside: exactly as many as wanted, and most stay when
/// rows are added.
std::vector<Index> random_rows(Index rows, Index first, Index wanted, std::uint64_t seed) {
  constexpr std::uint64_t kSplit = 0x73706c6974;  // apart from other uses of the seed
  const auto random_key = [&](Index row) {
    return std::pair(mix(mix(seed, kSplit), static_cast<std::uint64_t>(row)), row);
  };
  std::vector<Index> chosen(static_cast<std::size_t>(rows));
  std::iota(chosen.begin(), chosen.end(), Index{0});
  std::ranges::nth_element(chosen, chosen.begin() + first + wanted, {}, random_key);
  chosen.resize(static_cast<std::size_t>(first + wanted));
  std::ranges::nth_element(chosen, chosen.begin() + first, {}, random_key);
  chosen.erase(chosen.begin(), chosen.begin() + first);
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<Subset> by_roles(const RowChoice& choice, const SplitColumn& column) {
  const auto roles = roles_of(choice, column);
  std::vector<Subset> parts;
  // Without a choice, rows of the word "test" test, if that is asked for; all others are for nothing.
  const auto otherwise = [&](std::size_t value) {
    return tests(choice.test_roles, column, column.values[value]) ? Subset::test : Subset::all;
  };
  for (const std::int32_t row : column.of_row) {
    const auto value = static_cast<std::size_t>(row);
    parts.push_back(roles[value] ? *roles[value] : otherwise(value));
  }
  return parts;
}

std::vector<Subset> by_shares(const RowChoice& choice, Index rows) {
  std::vector<Subset> parts(static_cast<std::size_t>(rows), Subset::train);
  if (rows < 2) return parts;
  const auto share = [&](double of) { return static_cast<Index>(std::llround(of * static_cast<double>(rows))); };
  const Index validate = std::clamp<Index>(share(choice.validation), 1, rows - 1);
  for (const Index row : random_rows(rows, 0, validate, choice.seed))
    parts[static_cast<std::size_t>(row)] = Subset::validation;
  if (choice.test == 0) return parts;
  if (rows < 3)
    throw DataError("there are " + std::to_string(rows) +
                    " rows, and the split has 3 sides, each of which needs one; leave data.split.test out");
  const Index test = std::clamp<Index>(share(choice.test), 1, rows - 1 - validate);
  for (const Index row : random_rows(rows, validate, test, choice.seed))
    parts[static_cast<std::size_t>(row)] = Subset::test;
  return parts;
}

}  // namespace

std::vector<std::string> RowChoice::columns() const {
  if (rule != SplitRule::arrays) return column.empty() ? std::vector<std::string>{} : std::vector<std::string>{column};
  std::vector<std::string> names = train_roles;
  names.insert(names.end(), validation_roles.begin(), validation_roles.end());
  names.insert(names.end(), test_roles.begin(), test_roles.end());
  return names;
}

std::vector<Index> choose_rows(const RowChoice& choice, Index rows, const SplitColumn& column,
                               const std::vector<std::int32_t>& strata) {
  std::vector<Index> chosen;
  std::vector<Subset> parts;
  if (choice.part != Subset::all) {
    MRMF_CHECK(choice.columns().empty() || std::ssize(column.of_row) == rows, "the column is not of these rows");
    parts = choice.by_roles()                                  ? by_roles(choice, column)
            : choice.rule == SplitRule::rows && strata.empty() ? by_shares(choice, rows)
                                                               : parts_of_rows(choice, rows, column, strata);
  }
  for (Index row = 0; row < rows; ++row)
    if (choice.part == Subset::all || parts[static_cast<std::size_t>(row)] == choice.part) chosen.push_back(row);
  return chosen;
}

std::string ranges_text(const std::vector<Index>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<Index> rows_of_piece(const RowPiece& piece, std::vector<Index> rows) {
  if (piece.all()) return rows;
  MRMF_CHECK(piece.number >= 0 && piece.number < piece.of, "a part that there is not");
  constexpr std::uint64_t kPiece = 0x7069656365;  // apart from other uses of the seed
  std::ranges::sort(rows, {}, [&](Index row) {
    return std::pair(mix(mix(piece.seed, kPiece), static_cast<std::uint64_t>(row)), row);
  });
  const Range own = mrmf::piece(std::ssize(rows), piece.number, piece.of);
  Index held = 0;
  if (piece.held_out > 0 && own.count > 1)
    held = std::clamp<Index>(std::llround(piece.held_out * static_cast<double>(own.count)), 1, own.count - 1);
  const Range wanted = piece.held ? Range{own.first, held} : Range{own.first + held, own.count - held};
  const auto first = rows.begin() + wanted.first;
  std::vector<Index> chosen(first, first + wanted.count);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace mrmf
