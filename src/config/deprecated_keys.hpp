// Words of earlier versions: keys, and values of keys, that are called otherwise today or are gone. Configurations, and
// the files that runs wrote, are read with either; what is written has today's words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/config/toml.hpp"

namespace mrmf {

/// Gives keys and values of earlier versions today's words. Returns a line for each, with where it stands and what it
/// is called now. ConfigError where a key is given under both names.
std::vector<std::string> rename_deprecated_keys(Value& root);

/// Takes away keys that are gone: runs wrote them out. ConfigError where one says something else than what is done
/// today. of_run: a finished run wrote the file, so what only its training did does not count.
void drop_gone_keys(Value& root, bool of_run);

/// Today's words for settings as runs write them: "section.key", and its value as TOML. Leaves out keys that are gone,
/// where they say what is done without them.
std::map<std::string, std::string> with_todays_words(const std::map<std::string, std::string>& settings);

/// Today's word for a value of such a key: "stem" for "front" of method.top. Others are returned as they are.
std::string todays_word(const std::string& key, const std::string& word);

}  // namespace mrmf
