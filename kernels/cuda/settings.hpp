// How to compute on a GPU: what the program tells the CUDA module. No CUDA in here.
#pragma once

#include <cstddef>
#include <string>

namespace mrmf::cuda {

/// fp32: exact multiplication; tf32: float32 in memory, tensor cores round factors to 10 bits of mantissa; bf16:
/// activations in bfloat16. Parameters, gradients, statistics and sums are float32 in all of them.
enum class Precision { fp32, tf32, bf16 };

struct Settings {
  int device = 0;  ///< ordinal among those this process sees
  Precision precision = Precision::tf32;
  bool deterministic = false;  ///< the same bits in every run: fixed plans, no atomic sums
  bool graphs = true;          ///< record a step once and replay it
  bool resident = true;        ///< keep data sets in device memory where they fit
  bool share_device = false;   ///< several ranks compute on one GPU: for tests
  double timeout = 300;        ///< seconds after which a sum over ranks that has not ended is a fault
  std::string plans;           ///< file that keeps the fastest plans; empty: none
  std::size_t workspace = std::size_t{64} << 20;  ///< bytes that a library call may use at most
};

}  // namespace mrmf::cuda
