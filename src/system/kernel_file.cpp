#include "src/system/kernel_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

constexpr std::string_view kFormat = "mrmf kernels 1 ", kMachine = "machine: ";

std::string checksum(std::string_view text) { return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())); }

/// "AMD EPYC, cpu family 26, model 2, stepping 1": virtual machines often have names that say little.
std::string processor() {
  std::string text = this_machine().processor;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::string key = line.substr(0, line.find_first_of("\t:"));
    if (key == "cpu family" || key == "model" || key == "stepping")
      text += ", " + key + line.substr(std::min(line.size(), line.find(':') + 1));
  }
  return text;
}

}  // namespace

std::string kernel_machine(const Backend& backend) {
  const Versions versions = these_versions(backend.description());
  return fmt::format("{}; mrmf {} ({}), {}", processor(), versions.mrmf, versions.git, versions.backend);
}

KernelFile::KernelFile(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) read();
}

void KernelFile::read() {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0) return;
  may_replace_ = false;
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid()) {
    ignored_ = path_ + " is not a file of this user";
    return;
  }
  constexpr Index most = Index{16} << 20;
  std::string text;
  try {
    text = read_file(path_, most);
  } catch (const std::exception& error) {
    ignored_ = error.what();
    return;
  }
  if (!text.starts_with(kFormat)) {
    ignored_ = path_ + " is no file of kernels";
    return;
  }
  may_replace_ = true;
  const std::size_t begin = text.find('\n');
  const std::string_view body = begin == std::string::npos ? "" : std::string_view(text).substr(begin + 1);
  if (text.substr(kFormat.size(), begin - kFormat.size()) != checksum(body)) {
    ignored_ = path_ + " is damaged";
    return;
  }
  std::istringstream lines{std::string(body)};
  std::string machine;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kMachine))
      machine = line.substr(kMachine.size());
    else
      by_machine_[machine] += line + "\n";
}

void KernelFile::fill(cpu::KernelChoices& choices, const std::string& machine) const {
  if (const auto found = by_machine_.find(machine); found != by_machine_.end()) choices.add(found->second);
}

std::string KernelFile::keep(const cpu::KernelChoices& choices, const std::string& machine) {
  if (path_.empty()) return "there is no home folder";
  if (!may_replace_) return ignored_;
  cpu::KernelChoices known;  // what trials could not tell is tried again
  for (const auto& [problem, choice] : choices.all())
    if (!choice.kernels.empty()) known.put(problem, choice);
  by_machine_[machine] = known.text();
  std::string body;
  for (const auto& [name, text] : by_machine_) body += std::string(kMachine) + name + "\n" + text;
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) make_folders(folder.string());
    write_file(path_, std::string(kFormat) + checksum(body) + "\n" + body, Replace::file);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace mrmf
