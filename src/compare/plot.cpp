// `mrmf plot`: runs the drawing scripts of jobs/.
#include "src/compare/compare.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "generated/version.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

// Looks beside the sources that the program was built from, and beside an installed program (../jobs).
std::string script_path(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const std::filesystem::path& folder :
       {program.parent_path().parent_path(), std::filesystem::path(kSourceFolder)})
    if (std::filesystem::exists(folder / "jobs" / name)) return folder / "jobs" / name;
  throw ConfigError("jobs/" + name + " is not beside the program; run it by hand: python3 jobs/" + name + " --help");
}

}  // namespace

void plot_runs(const PlotOptions& options) {
  std::vector<std::string> words = options.runs;
  words.insert(words.end(), {"--x", options.x});
  if (options.mean) words.emplace_back("--mean");
  draw_plot("plot.py", words, options.output);
}

void require_plot(const OutputOption& output) {
  const std::string suffix = std::filesystem::path(output.file).extension();
  if (suffix != ".png" && suffix != ".svg")
    throw ConfigError(output.file + ": the name of a plot ends in .png or .svg");
  output.require();
}

void draw_plot(const std::string& script, std::vector<std::string> options, const OutputOption& output) {
  require_plot(output);
  OutputFile picture(output.file, output.replace);  // the script draws into this file under its temporary name
  options.insert(options.end(),
                 {"-o", picture.path(), "--format", std::filesystem::path(output.file).extension().string().substr(1)});
  std::vector<std::string> words{kPython, script_path(script)};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
    throw ConfigError("cannot start " + words.front() + " to draw the plot");
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) throw DataError("the plot was not made (see above)");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ConfigError("the plot was not made (see above); needed is " + std::string(kPython) + " with matplotlib");
  picture.commit();
}

}  // namespace mrmf
