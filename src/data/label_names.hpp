// What classes and outputs are called.
#pragma once

#include "src/config/config.hpp"

namespace mrmf {

/// Fills in data.names from the labels' files where the user has given none: words that are class values, or what the
/// file says (io/values/number_names.hpp). ConfigError where names are fewer or more than classes, or than outputs.
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

}  // namespace mrmf
