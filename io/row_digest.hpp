// Checksums of a little of a data set's numbers, by which its contents are told from others. Private to io/.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "io/hdf5_rows.hpp"
#include "io/row_source.hpp"

namespace mrmf::h5 {

/// A checksum of all that was added, in that order.
class Digest {
 public:
  void add(const void* bytes, std::size_t count);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(Index number) { add(&number, sizeof number); }
  void add(const std::vector<Index>& numbers);
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

/// How much of a data set is looked at.
struct Glance {
  Index whole = 0;               ///< a data set of at most so many bytes is read whole
  Index places = 4;              ///< of a larger one so many places, the first and the last rows among them,
  Index bytes = Index{1} << 16;  ///< each of as many whole rows as fit, or a piece from the middle of a longer one
  /// At most so many rows in one place, and in all that is read whole: each may take long to open.
  Index rows = std::numeric_limits<Index>::max();
};

/// The boxes that a glance at a data set of this shape reads. It follows from the shape, not from how the data set is
/// stored, so that a copy in other chunks is looked at in the same places.
std::vector<Block> places(const std::vector<Index>& shape, Index element_bytes, const Glance& glance);

/// Adds the numbers at these places, in this machine's own format. DataError when they cannot be read.
void add_numbers(Digest& digest, const RowSource& rows, const Glance& glance);

}  // namespace mrmf::h5
