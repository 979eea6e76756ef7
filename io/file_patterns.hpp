// Names of files with *, ? and [...].
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// Whether a name is a pattern, and no file of just this name is there.
bool is_pattern(const std::string& name);

/// The names with each pattern replaced by the files that it matches, in alphabetical order (byte by byte). A file that
/// is there already is not named again by a pattern. A pattern that matches nothing stays as it is.
std::vector<std::string> expand_patterns(const std::vector<std::string>& names);

/// "no file matches x*.h5; correct the pattern, or the folder to start from", or what else is to be done about it.
std::string no_match_text(const std::string& pattern);

}  // namespace mrmf
