// Texts of other programs' files, as people and configurations can read them.
#pragma once

#include <string>

namespace mrmf {

/// The text in one line of UTF-8: control characters become blanks, and what is not UTF-8 is taken for Latin-1.
std::string readable_text(const std::string& text);

}  // namespace mrmf
