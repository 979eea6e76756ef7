// What a finished run was set to, by the effective configuration in its folder. Private to src/compare.
#pragma once

#include <string>

#include "src/compare/runs.hpp"

namespace mrmf {

/// The settings of a run by its config.toml, without those that repetitions may differ in. Of folds, what was measured
/// over the rows that train is none of them.
Settings read_settings(const std::string& toml);

/// The fold that validated, from 0; 0 where the split has none.
int fold_of(const std::string& toml);

}  // namespace mrmf
