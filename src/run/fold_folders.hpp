// Where the runs of a split's folds lie: fold-0, fold-1, ... in one folder.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// The folder of a fold's run, within the folder that the configuration names.
std::string fold_folder(const std::string& folder, int fold);

/// The number of the first folder of a fold, from this one on, that exists; -1: there is none among the next thousand.
int first_fold_from(const std::string& folder, int fold);

/// The file that says what the folds of a folder were asked for with.
std::string folds_config(const std::string& folder);

/// The runs of its folds in place of a folder that has some and is no run's; all others stay.
std::vector<std::string> with_folds(const std::vector<std::string>& folders);

}  // namespace mrmf
