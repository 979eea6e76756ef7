#include "io/file_patterns.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/foreign_data.hpp"

namespace mrmf {
namespace {

/// What glob() found.
class Matches {
 public:
  explicit Matches(const std::string& pattern) { glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { globfree(&found_); }
  std::vector<std::string> names() const { return {found_.gl_pathv, found_.gl_pathv + found_.gl_pathc}; }

 private:
  glob_t found_{};
};

}  // namespace

bool is_pattern(const std::string& name) {
  std::error_code none;
  return name.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(name, none);
}

std::vector<std::string> expand_patterns(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::set<std::string> there;
  for (const std::string& name : names) {
    std::vector<std::string> found = is_pattern(name) ? Matches(name).names() : std::vector<std::string>{};
    const bool named = found.empty();
    if (named) found = {name};
    std::ranges::sort(found);  // by bytes, not by the language of the user
    for (const std::string& file : found)
      if (there.insert(file).second || named) files.push_back(file);
  }
  return files;
}

std::string no_match_text(const std::string& pattern) {
  const std::string advice = advice_on_name(pattern);
  return "no file matches " + pattern +
         (advice.empty() ? "; correct the pattern, or the folder to start from" : ": " + advice);
}

}  // namespace mrmf
