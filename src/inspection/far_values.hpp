// One number far from all others, which occurs again and again: it may say that there is none.
#pragma once

#include <string>

#include "src/data/channel_statistics.hpp"

namespace mrmf {

/// Says so of the first channel of `numbers` of which some rows have such a number at an end of
/// their range, and what to do; "": there is none. `name`: the data set's. The same on every rank. Not collective.
std::string far_value_text(const Numbers& numbers, const std::string& name);

}  // namespace mrmf
