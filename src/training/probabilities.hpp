// What outputs say of classes: the numbers that files of predictions hold and scores are made of.
#pragma once

#include <vector>

#include "kernels/operations.hpp"

namespace mrmf {

/// Softmax over the channels of every position (classes), or sigmoids (yes or no).
std::vector<float> probabilities(Task task, Index channels, ConstSpan y);

/// - log of the softmax's share of class `label`, from the outputs of one position.
double log_loss(ConstSpan outputs, Index label);
/// - log of the probability of a yes-or-no label, from its one output before the sigmoid; the label is from 0 to 1.
double log_loss(double output, double label);

}  // namespace mrmf
