#include "io/file_patterns.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

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

}  // namespace mrmf
