#include "src/ensemble/ensemble.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "generated/version.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/system/host_info.hpp"

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

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kOwner = "/owner.json", *kMark = "/ensemble.json";
constexpr double kFresh = 60, kSayAgain = 10;  // seconds

std::string link_text(const char* path) {
  std::error_code none;
  return fs::read_symlink(path, none).string();
}

// When a process began, in the system's ticks; "" where there is none, or one that has ended and nobody has waited for.
// A number is used again, a beginning is not.
std::string beginning_of(long process) {
  std::error_code none;
  const std::string path = fmt::format("/proc/{}/stat", process);
  if (!fs::exists(path, none)) return "";
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    return "";
  }
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string field, state;
  for (int i = 3; i <= 22 && fields >> field; ++i)
    if (i == 3) state = field;
  return state == "Z" || state == "X" ? "" : field;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string job() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID"), id = variable("SLURM_JOB_ID");
  return array.empty() ? id : array + "_" + variable("SLURM_ARRAY_TASK_ID");
}

Json this_process() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::localtime_r(&now, &date);
  char since[32] = "";
  std::strftime(since, sizeof since, "%F %T", &date);
  return {{"host", host_name()},
          {"process", ::getpid()},
          {"began", beginning_of(::getpid())},
          {"space", link_text("/proc/self/ns/pid")},
          {"job", job()},
          {"start", variable("SLURM_RESTART_COUNT")},
          {"since", since}};
}

double age(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return 1e9;
  return static_cast<double>(std::time(nullptr) - facts.st_mtime);
}

// Whether another host's process still renews its file. Where the file server's clock is ahead of this one's, the file
// tells only by changing.
bool renewed_lately(const std::string& path) {
  const double first = age(path);
  if (first >= 0) return first < kFresh;
  const auto written = [&] {
    return std::chrono::duration<double>(fs::last_write_time(path).time_since_epoch()).count();
  };
  const double before = written();
  for (int i = 0; i <= 2 * static_cast<int>(kSayAgain); ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!fs::exists(path)) return false;
    if (written() != before) return true;
  }
  return false;
}

// Whether the owner that a file names still works there.
bool is_at_work(const Json& owner, const std::string& path) {
  const Json mine = this_process();
  const auto text = [](const Json& json, const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  const bool visible = text(owner, "host") == text(mine, "host") && text(owner, "space") == text(mine, "space");
  const bool same_job = !text(owner, "job").empty() && text(owner, "job") == text(mine, "job");
  if (same_job && text(owner, "start") != text(mine, "start")) return false;  // a job's earlier start has ended
  if (!visible) return renewed_lately(path);
  return !text(owner, "began").empty() && beginning_of(owner.value("process", 0L)) == text(owner, "began");
}

std::optional<Json> owner_at_work(const std::string& folder) {
  const std::string path = folder + kOwner;
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  const Json owner = Json::parse(read_file(path), nullptr, false);
  if (!owner.is_object() || !is_at_work(owner, path)) return {};
  return owner;
}

[[noreturn]] void refuse_owned(const std::string& folder, const Json& owner) {
  const std::string of_job = owner.value("job", std::string());
  throw ConfigError(fmt::format(
      "ensemble.folder: {} is being worked on by process {} of {}{} since {}; wait for its end or stop it, or give "
      "another folder",
      folder, owner.value("process", 0L), owner.value("host", std::string("?")),
      of_job.empty() ? "" : ", job " + of_job, owner.value("since", std::string("?"))));
}

// The first line in which two texts differ.
std::string difference(const std::string& was, const std::string& is) {
  std::istringstream a(was), b(is);
  std::string left, right;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(a, left)), others = static_cast<bool>(std::getline(b, right));
    if (!more && !others) return "the design's points differ";
    if (!more) left = "nothing";
    if (!others) right = "nothing";
    if (left != right) return fmt::format("it has \"{}\", and this one \"{}\"", left, right);
  }
}

const std::regex& own_names() {
  static const std::regex form(
      "(ensemble\\.json|owner\\.json|journal(-[0-9]+)?\\.txt|rows\\.bin|data\\.h5|data\\.toml|members\\.csv|result\\."
      "json|log\\.txt|part-[0-9]+|work|"
      "members|rounds|job\\.sh|job\\.toml|job-[0-9_]+\\.log)(\\.partial-[0-9a-f]{16})?");
  return form;
}

bool is_unfinished(const std::string& name) {
  static const std::regex form(".*\\.partial-[0-9a-f]{16}");
  return std::regex_match(name, form);
}

std::vector<std::string> foreign_names(const std::string& folder) {
  std::vector<std::string> foreign;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string(); !std::regex_match(name, own_names()))
      foreign.push_back(name);
  std::ranges::sort(foreign);
  return foreign;
}

void read_into(Members& members, const std::string& folder, std::size_t folder_index,
               std::unordered_set<std::uint64_t>& seen) {
  for (const std::string& file : journals_in(folder)) {
    const JournalText text = read_journal(file);
    for (const Index line : text.damaged) members.damaged.push_back(fmt::format("{}:{}", file, line));
    for (const Attempt& attempt : text.attempts) {
      if (attempt.member >= static_cast<Index>(members.states.size()) || !seen.insert(attempt.line).second) continue;
      MemberState& state = members.states[static_cast<std::size_t>(attempt.member)];
      if (state.done && attempt.done) ++members.twice;
      if (state.done) continue;
      ++state.attempts;
      state.done = attempt.done, state.seconds = attempt.seconds, state.row = attempt.row;
      state.folder_index = folder_index, state.reason = attempt.reason;
    }
  }
}

}  // namespace

FolderOwner::FolderOwner(const std::string& folder) : path_(folder + kOwner) {
  if (const auto owner = owner_at_work(folder)) refuse_owned(folder, *owner);
  try {
    lock_.emplace(folder);
  } catch (const ConfigError&) {
    const auto owner = owner_at_work(folder);
    refuse_owned(folder, owner ? *owner : Json{});
  }
  text_ = this_process().dump(2) + "\n";
  write_file(path_, text_, Replace::file);
}

FolderOwner::~FolderOwner() {
  try {
    if (read_file(path_) == text_) ::unlink(path_.c_str());
  } catch (const Error&) {  // it is gone already
  }
}

void FolderOwner::still_here() {
  if (said_.seconds() < kSayAgain) return;
  said_ = {};
  ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
}

void require_nobody(const std::string& folder) {
  if (const auto owner = owner_at_work(folder)) refuse_owned(folder, *owner);
}

bool somebody_works(const std::string& folder) { return owner_at_work(folder).has_value(); }

Index Members::done() const {
  return std::ranges::count_if(states, [](const MemberState& state) { return state.done; });
}

Index Members::failed(int retries) const {
  return std::ranges::count_if(states,
                               [&](const MemberState& state) { return !state.done && state.attempts > retries; });
}

std::string folder_of(const EnsembleSpec& spec, const ArrayTask& part) {
  return part.count == 1 ? spec.folder : fmt::format("{}/part-{}", spec.folder, part.index);
}

void open_folder(const EnsembleSpec& spec, const std::vector<Point>& points) {
  const std::string path = spec.folder + kMark;
  const std::string text = identity(spec), design = fmt::format("{:016x}", checksum(points));
  make_folders(spec.folder);
  std::error_code none;
  if (!fs::exists(path, none)) {
    const std::vector<std::string> foreign = foreign_names(spec.folder);
    if (!foreign.empty())
      throw ConfigError(
          fmt::format("ensemble.folder: {} is not empty and no ensemble's (there is {}); give an empty or new folder",
                      spec.folder, foreign.front()));
    const Json mark{
        {"program", std::string("mrmf ") + kVersion}, {"members", points.size()}, {"design", design}, {"spec", text}};
    try {
      write_file(path, mark.dump(2) + "\n", Replace::nothing);
    } catch (const ConfigError&) {  // another part was faster
    }
  }
  const Json mark = Json::parse(read_file(path), nullptr, false);
  if (!mark.is_object()) throw DataError(path + ": not what mrmf writes there; give another folder");
  const std::string was = mark.value("spec", std::string());
  if (was == text && mark.value("design", std::string()) == design) return;
  throw ConfigError(fmt::format("ensemble.folder: {} holds another ensemble: {}; give another folder", spec.folder,
                                difference(was, text)));
}

std::vector<std::string> all_folders(const EnsembleSpec& spec) {
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(spec.folder, error))
    if (entry.path().filename().string().starts_with("part-")) parts.push_back(entry.path().string());
  std::ranges::sort(parts);
  parts.insert(parts.begin(), spec.folder);
  return parts;
}

void remove_unfinished(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        is_unfinished(name) && std::regex_match(name, own_names()) &&
        !(name.starts_with("ensemble.json") &&
          std::abs(age(entry.path().string())) < kFresh))  // another start's, just now
      files.push_back(entry.path());
  for (const fs::path& file : files) fs::remove(file, error);
}

std::vector<std::string> journals_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("journal") && name.ends_with(".txt")) files.push_back(folder + "/" + name);
  }
  std::ranges::sort(files);
  return files;
}

Members read_members(const EnsembleSpec& spec, Index count) {
  Members members;
  members.states.resize(static_cast<std::size_t>(count));
  members.folders = all_folders(spec);
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t folder_index = 0; folder_index < members.folders.size(); ++folder_index)
    read_into(members, members.folders[folder_index], folder_index, seen);
  return members;
}

void require_own_names(const std::string& folder) {
  const std::vector<std::string> foreign = foreign_names(folder);
  if (foreign.empty()) return;
  throw FaultError(fmt::format(
      "{}/{} was written by a member outside of its own folder; a member writes where it is started, and what of it "
      "command.collect names is kept",
      folder, foreign.front()));
}

namespace {

using Json = nlohmann::ordered_json;

Json packed(const Members& members) {
  Json states = Json::array();
  for (const MemberState& state : members.states)
    states.push_back({state.done, state.attempts, state.seconds, state.row, state.folder_index, state.reason});
  return {std::move(states), members.folders, members.twice, members.damaged};
}

void unpack(const Json& json, Members& members) {
  for (const Json& state : json[0])
    members.states.push_back({state[0].get<bool>(), state[1].get<int>(), state[2].get<double>(),
                              state[3].get<std::uint64_t>(), state[4].get<std::size_t>(), state[5].get<std::string>()});
  json[1].get_to(members.folders);
  json[2].get_to(members.twice);
  json[3].get_to(members.damaged);
}

Json packed(const RoundPoints& rounds) { return {rounds.points, rounds.rounds}; }

void unpack(const Json& json, RoundPoints& rounds) {
  json[0].get_to(rounds.points);
  json[1].get_to(rounds.rounds);
}

template <class Read>
auto from_root(Comm& world, Read&& read) {
  decltype(read()) found;
  std::string bytes;
  collective_try_on_root(world, [&] {
    found = read();
    if (world.size() > 1) Json::to_msgpack(packed(found), bytes);
  });
  if (world.size() == 1) return found;
  world.broadcast(bytes, 0);
  if (!world.root()) unpack(Json::from_msgpack(bytes), found);
  return found;
}

}  // namespace

Members members_from_root(const EnsembleSpec& spec, Index members, Comm& world) {
  return from_root(world, [&] { return read_members(spec, members); });
}

RoundPoints rounds_from_root(const EnsembleSpec& spec, Comm& world) {
  return from_root(world, [&] { return read_rounds(spec); });
}

}  // namespace mrmf
