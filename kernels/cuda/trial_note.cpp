#include "kernels/cuda/trial_note.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

namespace mrmf::cuda {
namespace {

namespace fs = std::filesystem;

std::string host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// When a process of this host was started, in the kernel's ticks; empty where there is none. Numbers of processes come
/// again, above all in containers.
std::string start_of(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int field_number = 20;  // field 22 of proc(5), counted from the third
  std::string field;
  for (int i = 0; i < field_number; ++i) fields >> field;
  return field;
}

long seconds_now() {
  using std::chrono::system_clock;
  return static_cast<long>(
      std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count());
}

constexpr const char* mark = ".trying-";

bool has_ended(const nlohmann::json& note) {
  if (note.at("host") == host()) return start_of(note.at("pid").get<long>()) != note.at("started").get<std::string>();
  constexpr long longest_trial = 600;
  return seconds_now() - note.at("at").get<long>() > longest_trial;
}

}  // namespace

TrialNote::TrialNote(const fs::path& plans) {
  if (!plans.empty()) file_ = plans.string() + mark + host() + "-" + std::to_string(getpid());
}

void TrialNote::trying(const EngineOfKind& tried) {
  if (file_.empty()) return;
  strike_out();
  const nlohmann::json note{{"kind", tried.kind},
                            {"engine", tried.engine},
                            {"host", host()},
                            {"pid", static_cast<long>(getpid())},
                            {"started", start_of(getpid())},
                            {"at", seconds_now()}};
  std::error_code error;
  if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), error);
  fs::remove(file_, error);  // the note of a process that had this number before
  fs::create_symlink(note.dump(), file_, error);
  noted_ = !error;
  if (error) file_.clear();  // nor would the next one be made
}

void TrialNote::strike_out() {
  std::error_code none;
  if (std::exchange(noted_, false)) fs::remove(file_, none);
}

std::vector<EngineOfKind> take_left_notes(const fs::path& plans) {
  std::vector<EngineOfKind> left;
  if (plans.empty()) return left;
  const fs::path folder = plans.has_parent_path() ? plans.parent_path() : fs::path(".");
  const std::string begins = plans.filename().string() + mark;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code none;
    if (!entry->path().filename().string().starts_with(begins) || !entry->is_symlink(none)) continue;
    const nlohmann::json note = nlohmann::json::parse(fs::read_symlink(entry->path(), none).string(), nullptr, false);
    try {
      if (!has_ended(note)) continue;
      left.push_back({note.at("kind").get<std::string>(), note.at("engine").get<std::string>()});
    } catch (const nlohmann::json::exception&) {  // no note of ours
      continue;
    }
    fs::remove(entry->path(), none);
  }
  return left;
}

}  // namespace mrmf::cuda
