#include "io/rows/row_piece.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {

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
