// Sums over ranks whose values travel as codes of fewer bits, where a backend makes the codes in its own memory. What
// the codes mean is in mpi/coded_sum.hpp, for the host: each rank adds one piece of all ranks' codes, decoded, and
// gives the result to the others as codes, so all ranks get the same bits.
#pragma once

#include "kernels/collectives.hpp"

namespace mrmf {

/// bf16 and scaled: the sum of values; levels and votes: the sign of the sum, and NaN where a value is not finite.
enum class CodeFormat { bf16, scaled, levels8, levels4, votes };

/// Where a tensor lies in a part.
struct CodedTensor {
  std::size_t first = 0, count = 0;
  bool operator==(const CodedTensor&) const = default;
};

/// A part of the gradients, or of the directions, and how it travels.
struct CodedPart {
  Span values{};
  CodeFormat code = CodeFormat::bf16;
  float weight = 1;                        ///< bf16, scaled: values are multiplied by it
  int most_level = 127;                    ///< levels
  float mean_level = 0;                    ///< levels: what the mean size of a tensor's values becomes
  bool geometric = false;                  ///< levels: the mean is the geometric one, without zeros
  std::span<const CodedTensor> tensors{};  ///< levels: all of the part, in order
  std::uint32_t rows = 1;                  ///< votes: the weight of this rank's; none of weight 0 votes
  std::uint64_t offset = 0;         ///< votes: of the first value in its arena; ties are functions of it and the step
  Span residual{}, sum_residual{};  ///< bf16, scaled: what codes have left out, laid out as values; empty: not kept
};

class CodedAllReduce : public AllReduce {
 public:
  /// As start(). Parts share no value. In every step that is captured and replayed, the same come as in the one before
  /// it. Returns the bytes that this rank sends.
  virtual double start_coded(const CodedPart& part) = 0;
};

}  // namespace mrmf
