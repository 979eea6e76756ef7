// "Did you mean ...?": the known word nearest to a misspelt one.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// The candidate nearest to `word` (the first of equals), or "" when none is near enough to be meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// "a, b, c": all candidates as they come; of many the ten nearest to `word`, and how many there are beside them.
std::string list_near(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean <quote>X<quote>?", or "" when nothing is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, char quote = '\'');

}  // namespace mrmf
