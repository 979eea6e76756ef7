// What outputs say of classes: the numbers that files of predictions hold and scores are made of.
#pragma once

#include <vector>

#include "kernels/operations.hpp"

namespace mrmf {

/// Softmax over the channels of every position (classes), or sigmoids (yes or no).
std::vector<float> probabilities(Task task, Index channels, ConstSpan y);

/// - log of the softmax's share of class `label`, from the outputs of one position.
double log_loss(ConstSpan outputs, Index label);
/// The same of a yes or no with this output, for a label from 0 to 1.
double log_loss(double output, double label);

}  // namespace mrmf
