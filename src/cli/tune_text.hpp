// What `mrmf tune` prints: the price before anything is trained, the trials and how well the rungs agree after it.
// Private to src/cli.
#pragma once

#include <string>
#include <vector>

#include "src/method/tune.hpp"

namespace mrmf {

/// The rungs and their costs in epochs at full resolution, beside that of all trials at full length. `axes`: of the
/// data. `made` says how the trials came to be so many.
std::string price_text(const std::vector<Rung>& rungs, int axes, const std::string& made);
/// The same as one JSON object.
std::string price_json(const std::vector<Rung>& rungs, int axes);

/// A line per trial, from best to worst, with a column per rung; then how well the rungs agree.
std::string result_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes);
/// The same as one JSON object, with the price. `best` is the winner's file.
std::string result_json(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes,
                        const std::string& best);

}  // namespace mrmf
