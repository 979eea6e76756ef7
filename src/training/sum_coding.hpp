// The codes in which ranks send gradients, or the directions of Lion's steps: training.communication.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/tensor.hpp"
#include "mpi/coded_sum.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Some neighbouring tensors of an arena, whose values are numbered one after the other without what lies between.
class PackedTensors {
 public:
  struct Part {
    std::size_t first = 0, at = 0, count = 0;  ///< in the numbering, in the arena
    std::size_t tensor = 0;
  };
  void add(std::size_t at, std::size_t count, std::size_t tensor) {
    if (count > 0) parts_.push_back({count_, at, count, tensor}), count_ += count;
  }
  std::size_t count() const { return count_; }
  /// Where the value of a number lies in the arena.
  std::size_t offset_of(std::size_t number) const;
  const std::vector<Part>& parts() const { return parts_; }
  void read(ConstSpan arena, const SumPiece& piece, float* to) const;
  void write(const float* from, const SumPiece& piece, Span arena) const;
  /// Calls body(offset in the piece, part of it) in their order.
  template <class Body>
  void for_each(const SumPiece& piece, const Body& body) const {
    for (const Part& part : parts_) {
      const std::size_t first = std::max(part.first, piece.first), end = std::min(part.first + part.count, piece.end());
      if (first < end) body(first - piece.first, Part{first, part.at + (first - part.first), end - first, part.tensor});
    }
  }

 private:
  std::vector<Part> parts_;
  std::size_t count_ = 0;
};

/// What one of this rank's workers brings to a sum. Arenas are laid out as the parameters.
struct WorkerValues {
  Span values;
  Span residual{};                 ///< what its codes have left out so far (training.error_feedback); empty: none
  const float* factors = nullptr;  ///< levels: by tensor, what values are multiplied by before they are rounded
  std::uint32_t rows = 1;          ///< votes: its weight; none of weight 0 votes
};

struct CodingSettings {
  Communication scheme = Communication::fp32;  ///< none of fp32 and automatic
  int most_level = 1;                          ///< levels
  std::uint64_t tie_key = 0;                   ///< votes: what the bits of ties are a function of, besides the offset
};

/// Sums of these tensors; `result` gets it: the sum, or of levels and votes its sign, and NaN where a value was not
/// finite. Keeps what spans and pointers refer to. `sum_residual`, laid out as the result: what the codes of sums have
/// left out so far, in the pieces that this rank adds, and zero elsewhere; empty: it is not kept.
std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result, Span sum_residual = {});

/// Workers whose sums the counters of a way hold.
int most_workers(const SumSettings& sums);
/// The largest level that so many workers can add up in a byte, or in four bits; 0: more than its counters hold. With
/// full levels, the largest that a byte, or half of one, carries: sums are added unpacked.
int most_level(const SumSettings& sums, int workers);

/// The size, in means of a tensor's, that becomes the largest level. Levels that fill their bytes have room for larger
/// ones than Lion Cub's.
double cut_off(const SumSettings& sums);

/// Values of a sum over so many ranks below which its messages are so short that what each costs shows.
std::size_t fewest_values(Communication scheme, int ranks);

/// Bytes of the codes of so many values, as a worker sends them and as the sum comes back; of votes without zeros.
struct CodeBytes {
  double there = 0, back = 0;
};
CodeBytes code_bytes(Communication scheme, double values);
/// Bytes that a rank sends in a sum of so many values over so many ranks, of which each has some workers.
double sum_bytes(Communication scheme, double values, int ranks, int workers = 1);

}  // namespace mrmf
