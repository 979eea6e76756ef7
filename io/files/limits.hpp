// Limits on the contents of files, checked before anything else: sizes, which a file may give as anything below 2^64,
// and nesting depth. Nesting is found without recursion. Parsers do recurse, as does the code that walks over their
// results, so a text that is nested deeply enough would overflow the stack.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Elements of the largest data set, or of all files together. The bytes of several such still fit an Index.
constexpr Index kMostElements = Index{1} << 52;
/// Bytes of one call that reads: fewer than the system's calls may return.
constexpr Index kMostReadBytes = Index{1} << 30;
/// Elements of one row.
constexpr Index kMostRowElements = Index{1} << 34;

/// DataError with the shape when a data set exceeds these numbers, or has a size below 0 (2^63 or more in the file).
void require_countable(const std::vector<Index>& shape, const std::string& what);

/// a * b for nonnegative numbers; the largest Index when that overflows.
Index saturated_product(Index a, Index b);

/// "(96, 64, 3)"
std::string shape_text(const std::vector<Index>& shape);

/// Bytes of a configuration, which may name 100,000 files or more.
constexpr Index kMostTomlBytes = Index{1} << 26;
/// Levels of lists, of tables, and names of one dotted key.
constexpr int kMostNesting = 32;

/// The deepest nesting of brackets outside strings and comments, or the most names in a dotted key if that is more. At
/// least what a TOML parser would find before it meets an error.
int toml_nesting(std::string_view text);
/// The deepest nesting of brackets outside strings of a JSON text.
int json_nesting(std::string_view text);

/// ConfigError naming `origin` when a configuration's text is too large, nested too deeply, or has a non-ASCII
/// character where none may be (the parser's behaviour is then undefined).
void require_shallow_toml(std::string_view text, const std::string& origin);
/// DataError likewise, for JSON from one of our own files.
void require_shallow_json(std::string_view text, const std::string& origin);

}  // namespace mrmf
