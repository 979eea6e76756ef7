// Evaluation with dropout: the outputs of several such passes are spread as far as dropout makes the network unsure.
#pragma once

#include "layers/model.hpp"

namespace mrmf {

/// Whether some layer drops anything while it trains.
bool drops(const Network& network);

/// The network's output for x as in evaluation, but with the dropout masks of the step's seed, number and ids. Batch
/// norms use their running statistics and leave them as they are. Valid until the model's next forward.
ConstTensor forward_with_dropout(Model& model, const Step& step, ConstTensor x);

}  // namespace mrmf
