#include "src/ensemble/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr std::size_t kDigits = 16;

std::string checksum_of(std::string_view text) { return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())); }

// "<checksum> {"member":7,...}"
std::string line_of(const Attempt& attempt) {
  nlohmann::ordered_json json{{"member", attempt.member}, {"try", attempt.number}, {"seconds", attempt.seconds}};
  if (attempt.done)
    json["row"] = fmt::format("{:016x}", attempt.row);
  else
    json["failed"] = attempt.reason;
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return checksum_of(text) + " " + text;
}

bool read_line(std::string_view line, Attempt& attempt) {
  if (line.size() < kDigits + 2 || line[kDigits] != ' ') return false;
  const std::string_view text = line.substr(kDigits + 1);
  if (line.substr(0, kDigits) != checksum_of(text)) return false;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return false;
  attempt.line = XXH3_64bits(text.data(), text.size());
  attempt.member = json.value("member", Index{-1});
  attempt.number = json.value("try", 1);
  attempt.seconds = json.value("seconds", 0.0);
  attempt.done = json.contains("row");
  attempt.row = attempt.done ? std::strtoull(json.value("row", "0").c_str(), nullptr, 16) : 0;
  attempt.reason = json.value("failed", "");
  return attempt.member >= 0;
}

bool ends_torn(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return false;
  const std::string text = read_file(path);
  return !text.empty() && text.back() != '\n';
}

}  // namespace

Journal::Journal(const std::string& path) : file_(path, LineFile::Start::append) {
  if (ends_torn(path)) file_.write("");
}

void Journal::append(std::span<const Attempt> attempts) {
  std::string lines;
  for (const Attempt& attempt : attempts) lines += (lines.empty() ? "" : "\n") + line_of(attempt);
  if (lines.empty()) return;
  file_.write(lines);
  file_.sync();
}

JournalText read_journal(const std::string& path) {
  JournalText read;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return read;
  const std::string text = read_file(path);
  Index number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    Attempt attempt;
    if (line.empty()) continue;
    if (read_line(line, attempt))
      read.attempts.push_back(std::move(attempt));
    else
      read.damaged.push_back(number);
  }
  return read;
}

std::uint64_t row_checksum(std::span<const std::byte> row) { return XXH3_64bits(row.data(), row.size()); }

}  // namespace mrmf
