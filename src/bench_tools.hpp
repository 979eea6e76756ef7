// What the benchmarks share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// The middle value, the upper one of two; `values` is not empty.
double median(std::vector<double> values);

/// Writes the text to the file that this option names, unless it names none. ConfigError when it cannot.
void write_figures(const std::string& option, const std::string& file, const std::string& text);

/// Standard normal values, the same for the same seed; they repeat after a million.
void fill_normal(Span values, std::uint64_t seed);

}  // namespace mrmf
