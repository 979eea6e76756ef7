#include "src/plot.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "generated/version.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

// Beside the sources the program was built from, or beside an installed program (../jobs).
std::string script_path() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const std::filesystem::path& folder :
       {program.parent_path().parent_path(), std::filesystem::path(kSourceFolder)})
    if (std::filesystem::exists(folder / "jobs/plot.py")) return folder / "jobs/plot.py";
  throw ConfigError("jobs/plot.py is not beside the program; run it by hand: python3 jobs/plot.py RUN... -o FILE");
}

}  // namespace

void plot_runs(const PlotOptions& options) {
  std::vector<std::string> words{kPython, script_path()};
  words.insert(words.end(), options.runs.begin(), options.runs.end());
  words.insert(words.end(), {"-o", options.output});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
    throw ConfigError("cannot start " + words.front() + " to draw the plot");
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ConfigError("the plot was not made (see above); needed is " + std::string(kPython) + " with matplotlib");
}

}  // namespace mrmf
