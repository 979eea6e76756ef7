// Limits of valid numbers, in the type that a file stores.
#pragma once

#include <optional>

#include "io/element.hpp"

namespace mrmf {

/// A limit of an array's numbers in the type that the file stores.
struct StoredLimit {
  std::optional<long double> number{};  ///< the outermost of this type that is within; none: all are
  bool none_within = false;
};

/// Which of two limits it is.
enum class LimitSide { least, most };

/// Whole numbers are within a limit between two of them when the next one further in is; floats round it.
StoredLimit stored_limit(long double number, LimitSide side, ElementType type);

}  // namespace mrmf
