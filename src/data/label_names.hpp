// What classes and outputs are called.
#pragma once

#include "src/config/config.hpp"

namespace mrmf {

/// Fills in data.names from the labels' file where the user has given none: words that are class values, or what the
/// file says (io/stored_names.hpp). ConfigError where names are fewer or more than classes, or than outputs. Call when
/// the number of classes is known; `outputs` are the network's. A metric of a class by its name becomes one by its
/// number. Collective.
void resolve_names(Config& config, Index outputs, Comm& comm);

/// The names, of classes or of labels: as many as there are outputs, or none.
const std::vector<std::string>& names_of(const Config& config);

}  // namespace mrmf
