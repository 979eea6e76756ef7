#include "io/file_patterns.hpp"

#include <glob.h>

#include <cstdint>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

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

constexpr std::int64_t kFewestFolded = 16;  // shorter lists are easier to read when they are written out
constexpr std::int64_t kMostNames = std::int64_t{1} << 24;
constexpr std::size_t kMostDigits = 18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > kMostDigits || !std::ranges::all_of(digits, is_digit)) return {};
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::string with_zeros(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits > text.size() ? digits - text.size() : 0, '0') + text;
}

/// "before{first..last}behind": names that count up, with as many digits in each.
struct NumberedNames {
  std::string before, behind;
  std::int64_t first = 0, last = 0;
  std::size_t digits = 0;

  std::string text() const {
    return before + "{" + with_zeros(first, digits) + ".." + with_zeros(last, digits) + "}" + behind;
  }
  std::string name(std::int64_t number) const { return before + with_zeros(number, digits) + behind; }
  std::int64_t count() const { return last - first + 1; }
};

/// What text() wrote; none where that is another name.
std::optional<NumberedNames> numbered(const std::string& name) {
  const std::size_t open = name.find('{'), dots = name.find("..", open), close = name.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos || dots > close) return {};
  const std::string_view all = name, first = all.substr(open + 1, dots - open - 1),
                         last = all.substr(dots + 2, close - dots - 2);
  const auto from = number_of(first), to = number_of(last);
  std::error_code none;
  if (!from || !to || first.size() != last.size() || *to < *from || *to - *from >= kMostNames ||
      std::filesystem::exists(name, none))
    return {};
  return NumberedNames{name.substr(0, open), name.substr(close + 1), *from, *to, first.size()};
}

/// The two names as a range, where the second is the next one after the first.
std::optional<NumberedNames> counting(const std::string& one, const std::string& next) {
  if (one.size() != next.size() || one.find_first_of("{}") != std::string::npos) return {};
  const auto differ = static_cast<std::size_t>(std::ranges::mismatch(one, next).in1 - one.begin());
  if (differ == one.size() || !is_digit(one[differ])) return {};
  std::size_t begin = differ, end = differ;
  while (begin > 0 && is_digit(one[begin - 1])) --begin;
  while (end < one.size() && is_digit(one[end])) ++end;
  const auto number = number_of(std::string_view(one).substr(begin, end - begin));
  if (!number) return {};
  NumberedNames names{one.substr(0, begin), one.substr(end), *number, *number + 1, end - begin};
  if (names.name(names.last) != next) return {};
  return names;
}

}  // namespace

bool is_pattern(const std::string& name) {
  std::error_code none;
  return name.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(name, none);
}

std::vector<std::string> expand_patterns(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::set<std::string> there;
  for (const std::string& name : names) {
    if (const std::optional<NumberedNames> range = numbered(name)) {
      for (std::int64_t number = range->first; number <= range->last; ++number) {
        files.push_back(range->name(number));
        there.insert(files.back());
      }
      continue;
    }
    std::vector<std::string> found = is_pattern(name) ? Matches(name).names() : std::vector<std::string>{};
    const bool named = found.empty();
    if (named) found = {name};
    std::ranges::sort(found);  // by bytes, not by the language of the user
    for (const std::string& file : found)
      if (there.insert(file).second || named) files.push_back(file);
  }
  return files;
}

std::vector<std::string> fold_numbers(const std::vector<std::string>& names) {
  std::vector<std::string> folded;
  for (std::size_t i = 0; i < names.size();) {
    std::optional<NumberedNames> range = i + 1 < names.size() ? counting(names[i], names[i + 1]) : std::nullopt;
    while (range && i + static_cast<std::size_t>(range->count()) < names.size() && range->count() < kMostNames &&
           names[i + static_cast<std::size_t>(range->count())] == range->name(range->last + 1))
      ++range->last;
    if (range && range->count() >= kFewestFolded) {
      folded.push_back(range->text());
      i += static_cast<std::size_t>(range->count());
    } else {
      folded.push_back(names[i++]);
    }
  }
  return folded;
}

std::string no_match_text(const std::string& pattern) {
  const std::string advice = advice_on_name(pattern);
  return "no file matches " + pattern +
         (advice.empty() ? "; correct the pattern, or the folder to start from" : ": " + advice);
}

}  // namespace mrmf
