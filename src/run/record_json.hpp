// What the records of a run have in common as JSON. Private to src/run.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace mrmf {

using Json = nlohmann::ordered_json;  // keeps keys in the order of writing

/// JSON has no NaN and no infinity: null stands for them.
inline Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }
inline double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

}  // namespace mrmf
