// Rare classes: weights that make up for them, and epochs that draw classes equally often.
#pragma once

#include <memory>
#include <vector>

#include "src/data/channel_statistics.hpp"
#include "src/data/data.hpp"

namespace mrmf {

/// How many labels of such data are of each class, over all ranks. requires: the form's number of classes is known.
/// Collective; reads the labels.
std::vector<Index> class_counts(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm);

/// Whether one class occurs at least three times as often as another that occurs: plain cross-entropy may miss that
/// one.
bool some_are_rare(const std::vector<Index>& counts);

/// The outputs of yes or no that are a yes at most once in four labels that count, and at least once. `labels` are
/// facts of zeros and ones.
std::vector<Index> rarely_yes(const ChannelFacts& labels);

/// training.class_weights = "balanced": sets the weight of each class to labels / (classes * labels of the class), of
/// the training labels, as scikit-learn does; 1 where a class never occurs. Collective; reads the training labels.
void resolve_class_weights(Config& config, const DatasetShape& train, Comm& comm);

/// data.sampling = "balanced": what the epochs of the training samples draw; null otherwise. ConfigError where the
/// shards do not let classes come equally often. Collective over `team`.
std::shared_ptr<const ClassBalance> class_balance(const DataConfig& data, const Split& train, Comm& team);

}  // namespace mrmf
