// `mrmf compare`: finished runs side by side, as the paper's Tables 5 and 7.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mrmf {

struct CompareOptions {
  std::optional<double> target;  ///< also the time until the validation loss first reached this
};

/// A column per method, schedule and settings; mean, sample standard deviation and number over the seeds; the paper's
/// own figures beside the columns that have some; a line for whatever makes the comparison unfair.
/// DataError for a folder that holds no finished run or a damaged one: a table without it would mislead.
std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options);

}  // namespace mrmf
