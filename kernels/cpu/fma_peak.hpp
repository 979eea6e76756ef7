// The most arithmetic that this machine can do in float32, measured.
#pragma once

namespace mrmf::cpu {

/// Operations per second of loops of independent multiply-adds in registers, with the instruction set in use, on so
/// many threads at once; the best of many tries of some milliseconds. A multiply-add counts as two operations.
double fma_peak(int threads);

}  // namespace mrmf::cpu
