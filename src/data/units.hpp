// Units of samples and labels, as the attributes of their arrays say: the same in all data that a model sees.
#pragma once

#include <string>

#include "io/rows/dataset.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Fills in data.units from the training data where nothing is given. ConfigError where another number of
/// units is given than there are arrays; DataError where the data say others.
void resolve_units(DataConfig& data, const DatasetShape& train);

/// DataError where both parts of the data say their units, and they differ. part: "validation" or "test".
void require_same_units(const FoundDataset& train, const FoundDataset& other, const std::string& part);

/// DataError where data are in other units than those that a model was trained on. A run of an earlier version does not
/// know any.
void require_trained_units(const DataConfig& trained, const FoundDataset& data);

}  // namespace mrmf
