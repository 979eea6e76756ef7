// Limits on what files may say, checked before anything is done with it: sizes, which may be anything below 2^64, and
// how deep texts are nested. Nesting is found without recursion: parsers and what walks over their results recurse, and
// a text that is deep enough ends a program by its stack.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Elements of the largest data set, or of all files together. Bytes of several of them still fit an Index.
constexpr Index kMostElements = Index{1} << 52;
constexpr Index kMostRowElements = Index{1} << 34;  ///< of one row

/// DataError naming the shape when a data set has a size below 0 (2^63 or more in the file) or more elements than
/// these.
void require_countable(const std::vector<Index>& shape, const std::string& what);

/// a * b of numbers of at least 0; the largest Index where that is too large.
Index saturated_product(Index a, Index b);

/// "(96, 64, 3)"
std::string shape_text(const std::vector<Index>& shape);

constexpr Index kMostTomlBytes = Index{1} << 20;  ///< of a configuration
constexpr int kMostNesting = 32;                  ///< of lists, tables and the names of one dotted key

/// The deepest nesting of brackets outside of strings and comments, or the most names joined by dots where that is
/// more. Not less than a TOML parser would find before it meets an error.
int toml_nesting(std::string_view text);
/// The same for JSON.
int json_nesting(std::string_view text);

/// ConfigError naming `origin` when the text of a configuration is larger or nested more deeply than any can be, or has
/// a character that is not ASCII where none may be (the parser's answer to it is undefined).
void require_shallow_toml(std::string_view text, const std::string& origin);
/// DataError likewise for JSON read from a file of ours.
void require_shallow_json(std::string_view text, const std::string& origin);

}  // namespace mrmf
