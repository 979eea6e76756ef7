#include "src/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/run/checkpoint_arrays.hpp"
#include "src/run/run_log.hpp"

namespace mrmf {
namespace {

enum class Held { here, elsewhere, nowhere };

Held try_lock(int descriptor) {
  for (;;) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Held::here;
    if (errno != EINTR) return errno == EWOULDBLOCK ? Held::elsewhere : Held::nowhere;
  }
}

// Another run may have removed the folder after an error, while this one waited for it.
bool is_still(int descriptor, const std::string& folder) {
  struct stat held {
  }, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(folder.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

namespace fs = std::filesystem;

constexpr const char* kMark = ".mrmf-run";
constexpr const char* kMarkText =
    "A run of mrmf lives in this folder: mrmf train writes and replaces its own files here, and only those.\n";
constexpr std::array kFiles{"config.toml", "plan.json", "epochs.jsonl", "stages.jsonl",    "result.json",
                            "log.txt",     kEventFile,  kMark,          "tournament.jsonl"};
constexpr std::array kFolders{"checkpoints", "team"};
constexpr std::array kTeamFiles{"epochs.jsonl", "stages.jsonl", "log.txt"};

std::string other_folder() { return "set another folder, --set run.folder=..."; }

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(fs::symlink_status(path, none));
}

// A killed process's rest of a file of this name.
bool is_partial_of(const std::string& name, const std::string& target) {
  constexpr std::size_t digits = 16;
  const std::string head = target + ".partial-";
  return name.size() == head.size() + digits && name.starts_with(head) &&
         name.find_first_not_of("0123456789abcdef", head.size()) == std::string::npos;
}

bool is_checkpoint(const std::string& name) {
  static const std::regex form("(phase|step)-[0-9]+(-before)?\\.h5(\\.partial(-[0-9a-f]{16})?)?");
  return std::regex_match(name, form) || checkpoint::is_block_file(name) || is_partial_of(name, "final.h5") ||
         is_partial_of(name, "best.h5") || is_partial_of(name, "teams.json");
}

// Names from jobs/submit.sh, jobs/reproduce.sh and the batch system.
bool is_of_jobs(const std::string& name) {
  static const std::regex form("job\\.sh|job\\.toml|job-[0-9_]+\\.log|asked\\.txt");
  return std::regex_match(name, form);
}

// A run of a version that wrote no mark.
bool is_older_run(const fs::path& folder) {
  if (!is_file(folder / "config.toml") || !is_file(folder / "plan.json")) return false;
  std::ifstream file(folder / "plan.json");
  const auto plan = nlohmann::json::parse(file, nullptr, false);
  return plan.is_object() && plan.contains("steps");
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  if (error)
    throw DataError("run.folder: " + folder.string() + " cannot be looked into (" + error.message() +
                    "); check the rights on it, or " + other_folder());
  std::ranges::sort(names);
  return names;
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw DataError(path.string() + ": cannot be removed: " + std::strerror(errno) +
                    "; check the rights on its folder");
}

// No run may write through a link, or over anything else that has one of its names.
void require_plain(const fs::path& folder) {
  const auto refuse = [&](const fs::path& path, const std::string& is) {
    throw ConfigError("run.folder: " + path.string() + " is " + is + ", and a run writes there; remove it, or " +
                      other_folder());
  };
  std::error_code none;
  for (const char* name : kFiles) {
    const auto type = fs::symlink_status(folder / name, none).type();
    if (type == fs::file_type::symlink) refuse(folder / name, "a link");
    if (type != fs::file_type::not_found && type != fs::file_type::regular) refuse(folder / name, "no plain file");
  }
  for (const char* name : kFolders) {
    const auto type = fs::symlink_status(folder / name, none).type();
    if (type == fs::file_type::symlink) refuse(folder / name, "a link");
    if (type != fs::file_type::not_found && type != fs::file_type::directory) refuse(folder / name, "no folder");
  }
}

}  // namespace

std::string checkpoint_file(const std::string& folder, int phase) {
  const fs::path checkpoints = fs::path(folder) / "checkpoints";
  const std::string former = "step-" + std::to_string(phase);
  std::error_code none;
  const bool earlier =
      fs::exists(checkpoints / (former + ".h5"), none) || fs::exists(checkpoints / (former + "-before.h5"), none);
  return (checkpoints / (earlier ? former + ".h5" : "phase-" + std::to_string(phase) + ".h5")).string();
}

int phase_of_checkpoint(const std::string& name) {
  static const std::regex form("(?:phase|step)-([0-9]{1,9})\\.h5");
  std::smatch number;
  return std::regex_match(name, number, form) ? std::stoi(number[1]) : 0;
}

FolderLock::FolderLock(const std::string& folder) {
  using Clock = std::chrono::steady_clock;
  // After mpirun is killed, its ranks end a moment later; a user who restarts at once waits for them.
  const Clock::time_point end = Clock::now() + std::chrono::seconds(3);
  for (;;) {
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) return;
    const Held held = try_lock(descriptor_);
    if (held == Held::nowhere || (held == Held::here && is_still(descriptor_, folder))) return;
    ::close(descriptor_);
    if (Clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw ConfigError("run.folder: " + folder +
                    " is in use by another mrmf train; wait for its end or stop it, or set another folder, --set "
                    "run.folder=...");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RunFolder::RunFolder(const std::string& path, bool overwrite) : path_(path) {
  std::error_code none;
  if (fs::is_symlink(fs::symlink_status(path_, none)) && !fs::exists(path_, none))
    throw ConfigError("run.folder: " + path_ + " is a link to nothing; remove it, or " + other_folder());
  try {
    hold();
    require_own(overwrite);
    require_plain(path_);
    mark();
  } catch (...) {
    // The destructor of a partly constructed object does not run.
    for (const std::string& file : made_files_) ::unlink(file.c_str());
    while (!made_folders_.empty()) ::rmdir(made_folders_.back().c_str()), made_folders_.pop_back();
    throw;
  }
}

RunFolder::~RunFolder() {
  for (const std::string& file : made_files_) ::unlink(file.c_str());
  // A folder that is not empty stays, because somebody else uses it.
  while (!made_folders_.empty()) ::rmdir(made_folders_.back().c_str()), made_folders_.pop_back();
}

void RunFolder::keep() {
  made_files_.clear();
  made_folders_.clear();
}

// Another run may remove the folder after an error, while this one waits for it.
void RunFolder::hold() {
  for (int attempt = 0; attempt < 10; ++attempt) {
    for (std::string& folder : make_folders(path_)) made_folders_.push_back(std::move(folder));
    lock_.emplace(path_);
    struct stat there {};
    if (::stat(path_.c_str(), &there) == 0) return;
  }
  throw DataError("run.folder: " + path_ + " vanishes again and again; " + other_folder());
}

void RunFolder::require_own(bool overwrite) const {
  const fs::path folder = path_;
  if (!is_file(folder / kMark) && !is_older_run(folder)) {
    std::vector<std::string> foreign;
    for (const std::string& name : names_in(folder))
      if (!is_of_jobs(name) && !is_partial_of(name, kMark)) foreign.push_back(name);
    constexpr std::size_t most = 3;
    const std::size_t more = foreign.size() - std::min(foreign.size(), most);
    if (!foreign.empty()) {
      foreign.resize(std::min(foreign.size(), most));
      throw ConfigError(
          fmt::format("run.folder: {} is not empty and not a run's (there is {}{}); give an empty or new "
                      "folder, --set run.folder=...",
                      path_, fmt::join(foreign, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
    }
  }
  std::error_code none;
  if (!overwrite && fs::exists(fs::symlink_status(folder / "result.json", none)))
    throw ConfigError("run.folder: " + path_ + " holds a finished run; give --overwrite to replace it, " +
                      other_folder() + ", or continue for more epochs: mrmf train --continue " + path_ +
                      " --set training.epochs=...");
}

void RunFolder::mark() {
  const fs::path folder = path_;
  for (const std::string& name : names_in(folder))
    if (std::ranges::any_of(kFiles, [&](const char* file) { return is_partial_of(name, file); }))
      remove_file(folder / name);
  if (!is_file(folder / kMark)) {
    write_file((folder / kMark).string(), kMarkText, Replace::nothing);
    made_files_.push_back((folder / kMark).string());
  } else if (::access(path_.c_str(), W_OK) != 0) {
    throw DataError("run.folder: " + path_ + " cannot be written (" + std::strerror(errno) +
                    "); check the rights on it, or " + other_folder());
  }
  for (std::string& made : make_folders((folder / "checkpoints").string())) made_folders_.push_back(std::move(made));
}

bool RunFolder::is_own_config(const std::string& file) const {
  std::error_code error;
  return fs::equivalent(file, fs::path(path_) / "config.toml", error) && !error;
}

void remove_result(const std::string& folder, Models models) {
  remove_file(fs::path(folder) / "result.json");
  if (models == Models::keep) return;
  remove_best_model(folder);
  remove_file(fs::path(folder) / "checkpoints" / "final.h5");
}

void remove_best_model(const std::string& folder) { remove_file(fs::path(folder) / "checkpoints" / "best.h5"); }
void remove_events(const std::string& folder) { remove_file(fs::path(folder) / kEventFile); }

// By name, not by number: the plan may have been different. A file that cannot be removed is never read again.
void remove_checkpoints(const std::string& folder, const std::string& kept) {
  const fs::path checkpoints = fs::path(folder) / "checkpoints";
  std::error_code none;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(checkpoints, none))
    if (const std::string name = entry.path().filename().string();
        name != kept && is_checkpoint(name) && (kept.empty() || !checkpoint::is_block_file(name, kept)))
      files.push_back(entry.path());
  for (const fs::path& file : files) ::unlink(file.c_str());
}

void remove_team_records(const std::string& folder) {
  const fs::path team = fs::path(folder) / "team";
  for (const char* name : kTeamFiles) ::unlink((team / name).c_str());
  ::rmdir(team.c_str());
}

namespace fs = std::filesystem;

std::string fold_folder(const std::string& folder, int fold) { return fmt::format("{}/fold-{}", folder, fold); }

int first_fold_from(const std::string& folder, int fold) {
  constexpr int kMost = 1000;
  std::error_code none;
  for (int k = fold; k < fold + kMost; ++k)
    if (fs::is_directory(fold_folder(folder, k), none)) return k;
  return -1;
}

std::string folds_config(const std::string& folder) { return folder + "/folds.toml"; }

std::vector<std::string> with_folds(const std::vector<std::string>& folders) {
  std::vector<std::string> all;
  std::error_code none;
  for (const std::string& folder : folders) {
    const bool run = !fs::is_directory(folder, none) || fs::exists(fs::path(folder) / "config.toml", none);
    int fold = 0;
    std::string name = folder;
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    for (; !run && fs::is_directory(fold_folder(name, fold), none); ++fold) all.push_back(fold_folder(name, fold));
    if (fold == 0) all.push_back(folder);
  }
  return all;
}

}  // namespace mrmf
