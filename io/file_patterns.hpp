// Names of files with *, ? and [...], and with ranges of numbers.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// Whether a name is a pattern, and no file of just this name is there.
bool is_pattern(const std::string& name);

/// The names with each pattern replaced by the files that it matches, in alphabetical order (byte by byte). A file that
/// is there already is not named again by a pattern. A pattern that matches nothing stays as it is. A range of numbers,
/// "sim{000..099}.h5", is replaced by all of its names, whether they are there or not, unless a file of just this name
/// is.
std::vector<std::string> expand_patterns(const std::vector<std::string>& names);

/// A shorter list of which expand_patterns() makes the same: many names that only count up are one range.
std::vector<std::string> fold_numbers(const std::vector<std::string>& names);

/// "no file matches x*.h5; correct the pattern, or the folder to start from", or what else is to be done about it.
std::string no_match_text(const std::string& pattern);

}  // namespace mrmf
