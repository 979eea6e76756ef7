#include "io/row_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/split_column.hpp"
#include "kernels/check.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

/// The rows with the smallest hashes: exactly as many as wanted, and most stay when rows are added.
std::vector<Index> random_rows(Index rows, Index wanted, std::uint64_t seed) {
  constexpr std::uint64_t kSplit = 0x73706c6974;  // apart from other uses of the seed
  const auto place = [&](Index row) { return std::pair(mix(mix(seed, kSplit), static_cast<std::uint64_t>(row)), row); };
  std::vector<Index> chosen(static_cast<std::size_t>(rows));
  std::iota(chosen.begin(), chosen.end(), Index{0});
  std::ranges::nth_element(chosen, chosen.begin() + wanted, {}, place);
  chosen.resize(static_cast<std::size_t>(wanted));
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

std::vector<Index> choose_rows(const RowChoice& choice, Index rows, const SplitColumn& column) {
  std::vector<Index> chosen;
  std::vector<bool> validates(static_cast<std::size_t>(rows));
  if (!choice.column.empty() && choice.part != RowPart::all) {
    MRMF_CHECK(std::ssize(column.of_row) == rows, "the column is not of these rows");
    const std::vector<RowRole> roles = roles_of(choice, column);
    const RowRole wanted = choice.part == RowPart::train ? RowRole::train : RowRole::validation;
    for (Index row = 0; row < rows; ++row)
      if (roles[static_cast<std::size_t>(column.of_row[static_cast<std::size_t>(row)])] == wanted)
        chosen.push_back(row);
    return chosen;
  }
  if (choice.part != RowPart::all && rows > 1) {
    const auto share = static_cast<Index>(std::llround(choice.validation * static_cast<double>(rows)));
    for (const Index row : random_rows(rows, std::clamp<Index>(share, 1, rows - 1), choice.seed))
      validates[static_cast<std::size_t>(row)] = true;
  }
  for (Index row = 0; row < rows; ++row)
    if (choice.part == RowPart::all || validates[static_cast<std::size_t>(row)] == (choice.part == RowPart::validation))
      chosen.push_back(row);
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

}  // namespace mrmf
