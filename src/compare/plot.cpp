// `mrmf plot`: runs the drawing scripts of jobs/.
#include "src/compare/compare.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

// Looks where an installed or bundled program has them, beside a build folder, and in the sources that the program was
// built from.
std::string script_path(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path above = program.parent_path().parent_path();
  for (const std::filesystem::path& folder :
       {above / "share" / "mrmf", above / "jobs", std::filesystem::path(kSourceFolder) / "jobs"})
    if (std::filesystem::exists(folder / "plots" / name)) return folder / "plots" / name;
  throw ConfigError("jobs/plots/" + name + " is not beside the program; run it by hand: python3 jobs/plots/" + name +
                    " --help");
}

// Of a program that gets its signals itself, whatever thread takes this one's (src/system/signal_thread.hpp).
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none{};
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Lets the script draw into the file, under its temporary name.
void run_script(const std::string& script, std::vector<std::string> options, const OutputFile& picture) {
  const std::string format = std::filesystem::path(picture.target()).extension().string().substr(1);
  options.insert(options.end(), {"-o", picture.path(), "--format", format});
  std::error_code ignored;  // elsewhere than where the program was built, another python3 may be the one
  const std::string python = std::filesystem::exists(kPython, ignored) ? kPython : "python3";
  std::vector<std::string> words{python, script_path(script)};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, SpawnAttributes().get(), argv.data(), environ) != 0)
    throw ConfigError("cannot start " + words.front() + " to draw the plot");
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) throw DataError("the plot was not made (see above)");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ConfigError("the plot was not made (see above); needed is " + python + " with matplotlib and h5py");
}

void require_matching(const PlotOptions& options) {
  const bool of_labels = options.kind == PlotKind::labels || options.kind == PlotKind::confusion;
  const std::string what = options.kind == PlotKind::labels      ? "--what labels"
                           : options.kind == PlotKind::confusion ? "--what confusion"
                                                                 : "--what times";
  const bool curves =
      options.kind == PlotKind::loss || options.kind == PlotKind::metric || options.kind == PlotKind::training;
  if (!curves && (options.mean || options.x != "seconds"))
    throw ConfigError("--x and --mean are for losses over cost, not for " + what);
  if (!of_labels && !options.labels.empty()) throw ConfigError("--labels is for --what labels and --what confusion");
  if (of_labels && options.labels.empty())
    throw ConfigError(what + " needs the true labels: --labels FILE:DATASET, as in --labels data.h5:val_y");
  if (of_labels && options.inputs.size() != 1) throw ConfigError(what + " takes one file, which mrmf predict wrote");
}

}  // namespace

std::vector<std::string> draw(const PlotOptions& options) {
  require_matching(options);
  const bool of_runs = options.kind != PlotKind::labels && options.kind != PlotKind::confusion;
  std::vector<std::string> words = of_runs ? with_folds(options.inputs) : options.inputs;
  if (!options.labels.empty()) words.emplace_back("--labels");
  words.insert(words.end(), options.labels.begin(), options.labels.end());
  switch (options.kind) {
    case PlotKind::metric:
    case PlotKind::training:
      words.insert(words.end(), {"--what", options.kind == PlotKind::metric ? "metric" : "training"});
      [[fallthrough]];
    case PlotKind::loss:
      words.insert(words.end(), {"--x", options.x});
      if (options.mean) words.emplace_back("--mean");
      return draw_plot("plot.py", words, options.output);
    case PlotKind::times: return draw_plot("plot_times.py", words, options.output);
    case PlotKind::confusion: words.emplace_back("--matrix"); [[fallthrough]];
    case PlotKind::labels: break;
  }
  return draw_plot("plot_labels.py", words, options.output);
}

std::vector<OutputOption> pictures_of(const OutputOption& output) {
  const std::string suffix = std::filesystem::path(output.file).extension();
  std::vector<OutputOption> pictures{output};
  if (suffix.empty()) pictures = {{output.file + ".png", output.replace}, {output.file + ".svg", output.replace}};
  if (!suffix.empty() && suffix != ".png" && suffix != ".svg")
    throw ConfigError(output.file + ": the name of a plot ends in .png or .svg; without either, both are made");
  for (const OutputOption& picture : pictures) picture.require();
  return pictures;
}

std::vector<std::string> draw_plot(const std::string& script, const std::vector<std::string>& words,
                                   const OutputOption& output) {
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const OutputOption& picture : pictures_of(output)) {
    files.push_back(std::make_unique<OutputFile>(picture.file, picture.replace));
    run_script(script, words, *files.back());
  }
  std::vector<std::string> drawn;
  for (const auto& file : files) {
    file->commit();
    drawn.push_back(file->target());
  }
  return drawn;
}

}  // namespace mrmf
