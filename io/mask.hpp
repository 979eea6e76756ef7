// Masks: a channel of samples that says where numbers are there.
#pragma once

#include <cstddef>

#include "io/element.hpp"

namespace mrmf {

/// Sets the last channel of each position, of values with channels last: 1 where all others are there, 0 where one is
/// NaN.
void write_mask(ElementType type, std::byte* values, Index positions, Index channels);

}  // namespace mrmf
