// The numbers of a step that kernels read from device memory, so that a recorded step can be replayed with new ones.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf::cuda {

struct StepBlock {
  std::uint64_t seed = 0, number = 0;
  std::int64_t index = 0;
  float loss_weight = 1;
  SgdStep sgd{};
  std::array<AdamStep, 2> adam{};

  static StepBlock of(const Step& step) {
    return {step.seed, step.number, step.index, step.loss_weight, step.sgd, step.adam};
  }
};

}  // namespace mrmf::cuda
