// Texts for people: "did you mean ...?" for a misspelt word, and texts of other programs' files made readable.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

// "Did you mean ...?": the known word nearest to a misspelt one.

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// The candidate nearest to `word` (the first of equals), or "" when none is near enough.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// "a, b, c": all candidates in their order; if there are many, the ten nearest to `word` and the number of others.
std::string list_near(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean <quote>X<quote>?", or "" when nothing is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, char quote = '\'');

/// Makes the letters from A to Z small; others stay.
std::string in_small_letters(std::string text);

// Texts of other programs' files, as people and configurations can read them.

/// The text in one line of UTF-8: control characters become blanks, and what is not UTF-8 is taken for Latin-1.
std::string readable_text(const std::string& text);

}  // namespace mrmf
