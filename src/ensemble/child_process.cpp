#include "src/ensemble/ensemble.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/files/work_folder.hpp"
#include "kernels/errors.hpp"
#include "kernels/file_descriptor.hpp"
#include "mpi/cores.hpp"
#include "mpi/environment.hpp"
#include "src/run/signals.hpp"

namespace mrmf {
namespace {

// What older headers lack.
constexpr std::uint64_t kRefer = 1ULL << 13, kTruncate = 1ULL << 14;
constexpr std::uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr std::uint64_t kChangeFolders =
    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

// Rules for where a process may write; none where the kernel has no Landlock.
FileDescriptor write_rules(const ChildCall& call) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return {};
  landlock_ruleset_attr handled{};
  handled.handled_access_fs =
      kWriteFile | kChangeFolders | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0);
  FileDescriptor rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0)));
  if (!rules) return {};
  const auto allow = [&](const std::string& path, std::uint64_t access) {
    const FileDescriptor opened(::open(path.c_str(), O_PATH | O_CLOEXEC));
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access & handled.handled_access_fs;
    rule.parent_fd = opened.number();
    if (opened) ::syscall(SYS_landlock_add_rule, rules.number(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  };
  allow(call.folder, ~0ULL);
  for (const std::string& folder : call.writable) allow(folder, ~0ULL);
  allow("/dev/shm", ~0ULL);
  allow("/dev", kWriteFile | kTruncate);
  allow("/proc", kWriteFile);
  return rules;
}

// A child is no rank of ours, whatever started us.
std::vector<std::string> environment_of(const ChildCall& call) {
  std::vector<std::string> variables;
  const bool launched = mpi_is_told([](const char* name) { return std::getenv(name); });
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const bool replaced =
        std::ranges::any_of(call.environment, [&](const auto& set) { return variable.starts_with(set.first + "="); });
    // Several children at a time would all be bound to the first cores.
    if (std::ranges::find(kBindingVariables, variable.substr(0, variable.find('='))) != kBindingVariables.end())
      continue;
    // Under a launcher some of these are its own; otherwise they are the user's.
    const bool setting = variable.starts_with("OMPI_MCA_") || variable.starts_with("PMIX_MCA_");
    if ((setting ? launched : tells_of_tasks(variable)) || replaced) continue;
    variables.emplace_back(variable);
  }
  for (const auto& [name, value] : call.environment) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// All that the child needs, made before the fork: between it and exec, a process of several threads may call little.
struct Prepared {
  std::vector<std::string> words, variables;
  std::vector<char*> argv, envp;
  FileDescriptor rules, log, nothing;
  const char* folder;
  CoreSet cores;  // OpenMP may have bound the thread that forks to some
};

// Only calls that are safe after a fork.
[[noreturn]] void become(const Prepared& child, pid_t parent) {
  constexpr int kCannotStart = 127;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(kCannotStart);  // it ended meanwhile
  ::setpgid(0, 0);
  for (const int signal : kEndingSignals) ::signal(signal, SIG_DFL);
  for (const int signal : {SIGXFSZ, SIGPIPE}) ::signal(signal, SIG_DFL);
  let_signals_in();
  child.cores.hold_this_thread();
  if (::dup2(child.nothing.number(), STDIN_FILENO) < 0 || ::dup2(child.log.number(), STDOUT_FILENO) < 0 ||
      ::dup2(child.log.number(), STDERR_FILENO) < 0)
    std::_Exit(kCannotStart);
  if (*child.folder != '\0' && ::chdir(child.folder) != 0) std::_Exit(kCannotStart);
  if (child.rules && (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                      ::syscall(SYS_landlock_restrict_self, child.rules.number(), 0) != 0))
    std::_Exit(kCannotStart);
  ::execve(child.argv[0], child.argv.data(), child.envp.data());
  std::_Exit(kCannotStart);
}

// Whether any process but the first of a group is there and has not ended.
bool others_in_group(pid_t group) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    std::istringstream behind_name(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    char state = 'Z';
    pid_t parent = 0, its_group = 0;
    if (behind_name >> state >> parent >> its_group && its_group == group && name != std::to_string(group) &&
        state != 'Z')
      return true;
  }
  return false;
}

// Lets what a program that was told to stop has started come to its end, too: an mpirun ends its ranks by then.
void give_time(pid_t group) {
  constexpr int kLooks = 100;
  for (int i = 0; i < kLooks && others_in_group(group); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// Its exit status, once it has ended, and all that it started with it. Told to stop once when `stop` becomes true.
int wait_for(pid_t child, const std::atomic<bool>& stop) {
  constexpr int kLook = 20;  // milliseconds between looks at `stop`
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));  // Linux 5.3 and later
  pollfd end{handle.number(), POLLIN, 0};
  bool told = false;
  for (;;) {
    siginfo_t ended{};
    const int asked = ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (asked < 0 && errno != EINTR) return -1;
    if (asked == 0 && ended.si_pid == child) break;
    if (stop && !told) ::kill(-child, SIGTERM), told = true;
    if (handle)
      ::poll(&end, 1, kLook);
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (told) give_time(child);
  ::kill(-child, SIGKILL);  // what it has left behind; while it is not waited for, its number is no other's
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildEnd run_child(const ChildCall& call, const std::atomic<bool>& stop) {
  Prepared child{call.words,
                 environment_of(call),
                 {},
                 {},
                 call.confined ? write_rules(call) : FileDescriptor(),
                 open_log(call.log),
                 FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                 call.folder.c_str(),
                 CoreSet(process_cores())};
  child.argv = pointers(child.words), child.envp = pointers(child.variables);
  const pid_t parent = ::getpid(), started = ::fork();
  if (started == 0) become(child, parent);
  if (started < 0) throw FaultError(fmt::format("{} cannot be started ({})", call.words.front(), std::strerror(errno)));
  const int status = wait_for(started, stop);
  ChildEnd end;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  end.stopped = stop && end.code != 0;
  return end;
}

std::string last_line(const std::string& log) {
  constexpr std::size_t most = 300;
  constexpr Index tail = Index{1} << 16;  // a program may print without end
  std::error_code none;
  if (!std::filesystem::exists(log, none)) return "";
  const InputFile file(log);
  std::string text(static_cast<std::size_t>(std::min(file.bytes(), tail)), '\0');
  const auto first = file.bytes() - std::ssize(text);
  const ssize_t got = ::pread(file.number(), text.data(), text.size(), static_cast<off_t>(first));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const std::size_t end = text.find_last_of("\r\n");
  std::string line = end == std::string::npos ? text : text.substr(end + 1);
  std::ranges::replace_if(
      line, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return line.size() > most ? line.substr(0, most) + "..." : line;
}

}  // namespace mrmf
