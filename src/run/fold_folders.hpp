// Where the runs of a split's folds lie: fold-0, fold-1, ... in one folder.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// The folder of a fold's run, within the folder that the configuration names.
std::string fold_folder(const std::string& folder, int fold);

/// The runs of its folds in place of a folder that has some and is no run's; all others stay.
std::vector<std::string> with_folds(const std::vector<std::string>& folders);

}  // namespace mrmf
