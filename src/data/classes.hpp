// Classes and outputs: their names, and how rare some classes are.
#pragma once

#include <memory>
#include <vector>

#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {

// What classes and outputs are called.

/// Fills in data.names from the labels' files where the user has given none: words that are class values, or what the
/// file says (io/values/class_names.hpp). ConfigError where names are fewer or more than classes, or than outputs.
/// Call when the number of classes is known; `outputs` are the network's. A metric of a class by its name becomes one
/// by its number, and data.names.stored keeps what the files say. Returns why labels have no names though a file lists
/// some, which are more or fewer than classes, or outputs: a line, or nothing.
std::vector<std::string> resolve_names(Config& config, Index outputs, const DatasetShape& train);

/// DataError where files call the numbers of labels something else than the training data's do, which the configuration
/// keeps (data.names.stored). `shape` is of any data for its model.
void require_same_names(const Config& config, const DatasetShape& shape);

/// DataError where another part of the data ("validation", "test") calls the numbers of labels something else than the
/// training data do.
void require_same_names(const DatasetShape& train, const DatasetShape& other, const std::string& part);

/// The names, of classes or of labels: as many as there are outputs, or none.
const std::vector<std::string>& names_of(const Config& config);

// Rare classes: weights that make up for them, and epochs that draw classes equally often.

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
