// Which array says of each row whether it trains or validates, guessed from names and values.
#pragma once

#include <string>
#include <vector>

#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

/// Sets look.split_column and look.split_validation where a column of the first file holds words such as "train" and
/// "val", or is a mark of 0 and 1 that is named like validation. Other values may be folds or roles, which only the
/// user knows: a line among the reasons tells of those that are named so. Reads the columns.
void find_split_column(const std::vector<FileArray>& arrays, const FileArray& samples, const std::string& path,
                       DatasetGuess& look);

}  // namespace mrmf
