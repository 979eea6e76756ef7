#include "kernels/cuda/trial_note.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
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
  constexpr int place = 20;  // field 22 of proc(5), counted from the third
  std::string field;
  for (int i = 0; i < place; ++i) fields >> field;
  return field;
}

constexpr const char* mark = ".trying-";

bool has_ended(const nlohmann::json& note, const fs::path& file) {
  if (note.at("host") == host()) return start_of(note.at("pid").get<long>()) != note.at("started").get<std::string>();
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  return !error && fs::file_time_type::clock::now() - written > std::chrono::minutes(10);
}

}  // namespace

TrialNote::TrialNote(const fs::path& plans, ReplaceFile replace) : replace_(std::move(replace)) {
  if (!plans.empty() && replace_) file_ = plans.string() + mark + host() + "-" + std::to_string(getpid());
}

void TrialNote::trying(const EngineOfKind& tried) {
  if (file_.empty()) return;
  const nlohmann::json note{{"kind", tried.kind},
                            {"engine", tried.engine},
                            {"host", host()},
                            {"pid", static_cast<long>(getpid())},
                            {"started", start_of(getpid())}};
  try {
    replace_(file_.string(), note.dump() + "\n");
    written_ = true;
  } catch (const std::exception&) {
    file_.clear();  // nor would the next one be written
  }
}

void TrialNote::strike_out() {
  std::error_code none;
  if (std::exchange(written_, false)) fs::remove(file_, none);
}

std::vector<EngineOfKind> take_left_notes(const fs::path& plans) {
  std::vector<EngineOfKind> left;
  if (plans.empty()) return left;
  const fs::path folder = plans.has_parent_path() ? plans.parent_path() : fs::path(".");
  const std::string begins = plans.filename().string() + mark;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& file = entry->path();
    std::error_code none;
    if (!file.filename().string().starts_with(begins) || !entry->is_regular_file(none)) continue;
    std::ifstream stream(file);
    const nlohmann::json note = nlohmann::json::parse(stream, nullptr, false);
    try {
      if (!has_ended(note, file)) continue;
      left.push_back({note.at("kind").get<std::string>(), note.at("engine").get<std::string>()});
    } catch (const nlohmann::json::exception&) {  // no note of ours, or half of one
      continue;
    }
    fs::remove(file, none);
  }
  return left;
}

}  // namespace mrmf::cuda
