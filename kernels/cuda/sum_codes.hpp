// Codes of sums over ranks in device memory: kernels that make them, add them and read the sums.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/kernels.hpp"
#include "kernels/step_and_collectives.hpp"

namespace mrmf::cuda {

/// How a part's values are cut into a piece for each rank, of which the last ones may be shorter or empty. The codes of
/// a piece always take as many bytes.
struct CodeLayout {
  static constexpr std::size_t kUnit = 256;  ///< pieces begin at multiples of it; values with one scale
  CodeFormat code = CodeFormat::bf16;
  std::size_t count = 0, piece = kUnit;
  int ranks = 1, rank = 0;

  static CodeLayout of(const CodedPart& part, int ranks, int rank);
  bool empty(int of_rank) const { return static_cast<std::size_t>(of_rank) * piece >= count; }
  std::size_t code_bytes() const;    ///< from a rank, of a piece; a multiple of 16
  std::size_t result_bytes() const;  ///< bytes of a piece's sum
};

/// Memory of one part, which must stay where it is once a step is captured.
struct CodeBuffers {
  std::byte* sent = nullptr;      ///< by rank: this rank's codes of its piece; that of its own piece is unused
  std::byte* gathered = nullptr;  ///< by rank: its codes of this rank's piece
  std::byte* results = nullptr;   ///< by rank: the sum of its piece
  CodedTensor* tensors = nullptr;
  float* factors = nullptr;    ///< by tensor
  double* partials = nullptr;  ///< factor_partials() doubles
};
std::size_t factor_partials(const CodedPart& part);

/// Values to codes, in `sent` and, of the own piece, in `gathered`.
void make_codes(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers);
/// The codes in `gathered` to this rank's result.
void add_codes(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers,
               const StepBlock* step);
/// The results to values.
void read_sums(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers);

}  // namespace mrmf::cuda
