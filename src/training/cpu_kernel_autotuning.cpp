#include "src/training/cpu_kernel_autotuning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/cpu/kernel_choice.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/system/host_info.hpp"
#include "src/training/model_and_optimizer.hpp"

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
    ignored_ = path_ + (S_ISLNK(found.st_mode)   ? " is a link"
                        : S_ISREG(found.st_mode) ? " is another user's"
                                                 : " is no file");
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
  if (text.empty()) {  // as a crash or a full disk leaves it
    may_replace_ = true;
    return;
  }
  if (!text.starts_with(kFormat)) {
    ignored_ = path_ + " is no file of kernels; remove it, or name another one in run.plans";
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
  KernelFile now(path_);  // trials take seconds: other runs may have kept theirs meanwhile
  if (!now.may_replace_) return now.ignored_;
  cpu::KernelChoices known;
  now.fill(known, machine);
  for (const auto& [problem, choice] : choices.all())
    if (!choice.kernels.empty()) known.put(problem, choice);  // what trials could not tell is tried again
  now.by_machine_[machine] = known.text();
  std::string body;
  for (const auto& [name, text] : now.by_machine_) body += std::string(kMachine) + name + "\n" + text;
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) make_folders(folder.string());
    write_file(path_, std::string(kFormat) + checksum(body) + "\n" + body, Replace::file);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

namespace {

using cpu::ConvProblem;
using cpu::KernelChoice;
using cpu::KernelChoices;

/// Builds the model's layers, which asks the backend for their kernels.
void ask(Backend& backend, const ModelSettings& model) {
  const std::unique_ptr<Backend> reference_backend = model.grid.ranks() > 1 ? make_reference_backend() : nullptr;
  const Network network(reference_backend ? *reference_backend : backend, model.network);
  build_execution(backend, network, model);
}

std::string lines_of(const std::set<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += problem + "\n";
  return text;
}

/// The open problems of all ranks, the same on each. Collective.
std::set<std::string> open_of_all(const KernelChoices& choices, Comm& ranks) {
  std::set<std::string> all = choices.open();
  std::string own = lines_of(all);
  if (ranks.all_equal(XXH3_64bits(own.data(), own.size()))) return all;
  for (int rank = 0; rank < ranks.size(); ++rank) {  // blocks of a grid are different problems
    std::string text = own;
    ranks.broadcast(text, rank);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.insert(line);
  }
  return all;
}

/// Forgets choices that this backend cannot follow, as of a run that began on another processor.
void drop_foreign(Backend& backend, KernelChoices& choices) {
  for (const std::string& text : choices.asked())
    if (const auto found = choices.all().find(text); found != choices.all().end())
      if (const auto problem = ConvProblem::parse(text);
          !problem || !cpu::has_kernels(backend, *problem, found->second))
        choices.drop(text);
}

constexpr double kMostSeconds = 4;  // seconds of trials before a run, on a busy machine

std::string layers(int count) { return fmt::format("{} layer{}", count, count == 1 ? "" : "s"); }

/// What came of the problems that had no choice.
struct Trials {
  int timed = 0, small = 0, unclear = 0, late = 0;
  int others = 0;  // with faster kernels than the fixed ones
  double fixed = 0, chosen = 0;

  KernelChoice add(Backend& backend, const ConvProblem& problem, bool in_time) {
    if (!in_time) return ++late, KernelChoice{};  // next time, perhaps
    const std::optional<KernelChoice> choice = cpu::time_kernels(backend, problem);
    if (!choice) return ++unclear, KernelChoice{};
    ++(choice->fixed > 0 ? timed : small);
    others += choice->chosen < choice->fixed ? 1 : 0;
    fixed += choice->fixed, chosen += choice->chosen;
    return *choice;
  }

  std::string text(double seconds) const {
    std::vector<std::string> parts;
    if (timed > 0) parts.push_back(fmt::format("{} timed in {:.2f} s", layers(timed), seconds));
    if (small > 0) parts.push_back(layers(small) + " with too little work or only one kernel");
    if (unclear > 0) parts.push_back(layers(unclear) + " too large or the machine too busy to tell");
    if (late > 0) parts.push_back(layers(late) + " left for another run");
    std::string line = fmt::format("{}", fmt::join(parts, ", "));
    if (others > 0)
      line += fmt::format("; {} with faster ones than the default, {:.2f} times as fast", others, fixed / chosen);
    return line;
  }
};

/// Chooses for these problems; returns what there is to say.
std::string choose(Backend& backend, KernelChoices& choices, const std::set<std::string>& open) {
  KernelFile file(choices.file());
  KernelChoices known;
  const std::string machine = kernel_machine(backend);
  file.fill(known, machine);
  const Timer timer;
  Trials trials;
  for (const std::string& text : open) {
    const std::optional<ConvProblem> problem = ConvProblem::parse(text);
    if (!problem) continue;
    const KernelChoice* const earlier = known.find(*problem);
    if (earlier != nullptr && cpu::has_kernels(backend, *problem, *earlier)) {
      choices.put(text, *earlier);
      continue;
    }
    const KernelChoice choice = trials.add(backend, *problem, timer.seconds() <= kMostSeconds);
    known.put(text, choice);
    choices.put(text, choice);
  }
  const std::string ignored = file.ignored().empty() ? "" : file.ignored() + ", so it is not read; ";
  if (trials.text(0).empty())
    return "kernels: " + ignored + "nothing to time; those timed before on this machine are in " + choices.file();
  const std::string fault = file.keep(known, machine);
  const std::string kept = fault.empty()             ? "kept in " + choices.file()
                           : fault == file.ignored() ? std::string("not kept")
                                                     : "not kept: " + fault;
  return "kernels: " + ignored + trials.text(timer.seconds()) + "; " + kept;
}

void ask_for(Backend& backend, KernelChoices& choices, const std::vector<ModelSettings>& models) {
  choices.forget_questions();
  for (const ModelSettings& model : models) ask(backend, model);
}

/// Chooses for what was asked and has no choice. The root knows which choices serve: it can follow them, and where
/// another rank cannot, fixed kernels take their place there. Collective.
std::string choose_open(Backend& backend, KernelChoices& choices, Comm& ranks) {
  if (ranks.root()) drop_foreign(backend, choices);
  const std::set<std::string> open = open_of_all(choices, ranks);
  if (open.empty()) return {};
  std::string line;
  collective_try_on_root(ranks, [&] { line = choose(backend, choices, open); });
  std::string text = choices.text();
  ranks.broadcast(text, 0);
  choices.add(text);
  return line;
}

}  // namespace

std::string choose_kernels(Backend& backend, const std::vector<ModelSettings>& models, Comm& ranks) {
  KernelChoices* const choices = cpu::kernel_choices(backend);
  if (ranks.any(choices == nullptr)) return {};
  ask_for(backend, *choices, models);
  return choose_open(backend, *choices, ranks);
}

namespace {

constexpr std::string_view kAsBegun = "kernels: those that the run began with";
constexpr std::string_view kInBf16 = "in bf16\n";  // before a checkpoint's choices of such a run

/// Takes the choices that a run's checkpoint has. Returns why it takes none; else nothing.
std::string take_up(KernelChoices& choices, std::string_view kept, bool in_bf16) {
  const bool began_in_bf16 = kept.starts_with(kInBf16);
  if (began_in_bf16) kept.remove_prefix(kInBf16.size());
  if (began_in_bf16 != in_bf16)
    return fmt::format("kernels: the default ones in {}, because the run began in {}", in_bf16 ? "bf16" : "float32",
                       began_in_bf16 ? "bf16" : "float32");
  const bool known = choices.add(kept) && !choices.all().empty();
  return known ? "" : "kernels: the default ones, as the run began";
}

std::vector<ModelSettings> models_of(const Plan& plan, const Config& config, const RunContext& ctx) {
  std::vector<ModelSettings> models;
  for (const Extent& resolution : plan.resolutions()) {
    ModelSettings model{.network = network_settings(config, plan, ctx.data.shape().sample, resolution)};
    if (SampleGrid* const grid = ctx.grid(resolution)) model.grid = grid->grid(), model.block = grid->block();
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace

void choose_kernels(const Plan& plan, const Config& config, const RunContext& ctx) {
  KernelChoices* const choices = cpu::kernel_choices(ctx.backend);
  const bool continues = ctx.saving != nullptr && ctx.saving->checkpoints.found();
  if (ctx.team.any(choices == nullptr)) {
    if (continues && ctx.backend.synchronous() && !ctx.saving->checkpoints.kernels().empty())
      ctx.log.line("kernels: the default ones, although the run began with those that trials found");
    return;
  }
  // Before any choice is there, as when the run began: one that others run in one pass is asked for by itself where
  // these run it apart.
  ask_for(ctx.backend, *choices, models_of(plan, config, ctx));
  const std::size_t all = choices->asked().size();
  std::size_t kept = 0;
  if (continues) {
    const std::string none = take_up(*choices, ctx.saving->checkpoints.kernels(), cpu::rounds_to_bf16(ctx.backend));
    if (ctx.team.any(!none.empty()))  // processors may differ in bf16
      return ctx.log.line(none.empty() ? std::string(kAsBegun) : none);
    if (ctx.team.root()) drop_foreign(ctx.backend, *choices);
    kept = all - choices->open().size();
  }
  const std::string line = choose_open(ctx.backend, *choices, ctx.team);
  if (continues && line.empty())
    ctx.log.line(std::string(kAsBegun));
  else if (continues)
    ctx.log.line(fmt::format("{}; only {} of {} as the run began: threads, rows a rank, or the processor differ", line,
                             kept, layers(static_cast<int>(all))));
  else if (!line.empty())
    ctx.log.line(line);
  const std::string precision = cpu::rounds_to_bf16(ctx.backend) ? std::string(kInBf16) : "";
  if (ctx.saving != nullptr) ctx.saving->checkpoints.set_kernels(precision + choices->text());
}

}  // namespace mrmf
