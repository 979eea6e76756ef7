// `mrmf compare`: finished runs side by side, as the paper's Tables 5 and 7.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mrmf {

struct CompareOptions {
  std::optional<double> target{};  ///< also the cost until the validation loss first reached this
  std::size_t width = 0;           ///< of a line, in characters: more columns go below; 0: as wide as it comes
};

/// Characters in a line of standard output: what COLUMNS says, else the terminal, else 120, so that a file looks the
/// same wherever it is made.
std::size_t output_width();

/// A column per method, schedule and settings; mean, sample standard deviation and number over the seeds; savings and
/// differences of the loss seed by seed, with their standard error; the paper's own figures beside the columns that
/// have some; a line for whatever makes the comparison unfair. DataError for a folder that holds no finished run or a
/// damaged one: a table without it would mislead.
std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options);
/// The runs behind that table, a line each, as comma-separated values under a line of names.
std::string compare_csv(const std::vector<std::string>& folders, const CompareOptions& options);
/// The columns of that table with their runs, figures and warnings.
std::string compare_json(const std::vector<std::string>& folders, const CompareOptions& options);

}  // namespace mrmf
