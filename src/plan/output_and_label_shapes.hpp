// What a plan's networks give and what the labels are must be alike.
#pragma once

#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Settles the number of classes, which follows from the network's output, and checks that at each of these resolutions
/// the output and the labels of such data have the same shape. ConfigError with both where they have not, or where
/// training.classes or training.class_weights say otherwise.
void resolve_labels(Config& config, const DatasetShape& shape, const std::vector<Extent>& resolutions);

/// Warnings, one line each, of classes without a label in the training data; `counts` has the labels of each class.
std::vector<std::string> class_warnings(const Config& config, const std::vector<Index>& counts);

}  // namespace mrmf
