// Commands about the program itself: `mrmf doctor`, what it finds on this machine, `mrmf manual` and `mrmf
// completion`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/version.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {

// `mrmf doctor`: reports what mrmf finds on this machine.

namespace {

struct DoctorOptions {
  bool json = false;
  RunConfig run;  // device: what to look for
};

// A GPU that is there or asked for and cannot be used is what a doctor should tell.
std::unique_ptr<Backend> backend_found(const RunConfig& run, Comm& world, std::string& no_gpu) {
  try {
    return make_backend(run, world);
  } catch (const ConfigError& error) {
    no_gpu = error.what();
  } catch (const FaultError& error) {
    no_gpu = error.what();
  }
  RunConfig cpu;
  cpu.device = Device::cpu;
  return make_backend(cpu, world);
}

// As an object, not as text in a text; nothing for the host.
nlohmann::ordered_json device_properties(const Backend& backend) {
  if (backend.name() != "cuda") return {};
  return nlohmann::ordered_json::parse(cuda_device_properties(), nullptr, false);
}

void print_facts(const DoctorOptions& options, Comm& world) {
  std::string no_gpu;
  const std::unique_ptr<Backend> backend = backend_found(options.run, world, no_gpu);
  const int threads = choose_threads(0, world);
  if (!world.root()) return;
  const Machine machine = this_machine();
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"mrmf", kVersion},
                                        {"git", kGitHash},
                                        {"processor", machine.processor},
                                        {"cores", machine.cores},
                                        {"memory_gib", machine.memory_gib},
                                        {"backend", backend->description()},
                                        {"bf16_products", cpu::has_bf16_products()},
                                        {"gpu_error",
                                         no_gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(no_gpu)},
                                        {"gpu", device_properties(*backend)},
                                        {"mpi", MpiEnvironment::version()},
                                        {"hdf5", hdf5_version()},
                                        {"ranks", world.size()},
                                        {"threads", threads},
                                        {"python", kPython}}
                     .dump(2)
              << "\n";
    return;
  }
  std::cout << fmt::format("mrmf       {} ({})\n", kVersion, kGitHash)
            << fmt::format("processor  {}, {} core{} usable\n", machine.processor, machine.cores,
                           machine.cores == 1 ? "" : "s")
            << fmt::format("memory     {:.1f} GiB\n", machine.memory_gib)
            << fmt::format("backend    {}\n", backend->description())
            << fmt::format("products   float32{}\n",
                           cpu::has_bf16_products() ? ", and with run.precision = \"bf16\" bf16" : "")
            << (no_gpu.empty() ? "" : fmt::format("GPU        cannot be used: {}\n", no_gpu))
            << fmt::format("MPI        {}\n", MpiEnvironment::version())
            << fmt::format("HDF5       {}\n", hdf5_version()) << fmt::format("ranks      {}\n", world.size())
            << fmt::format("threads    {} on rank 0\n", threads) << fmt::format("plots      {}\n", kPython);
}

}  // namespace

void add_doctor(Subcommands& commands) {
  CLI::App* doctor =
      commands.app.add_subcommand("doctor", "what mrmf finds here: libraries, processor, memory, ranks, threads");
  auto options = std::make_shared<DoctorOptions>();
  add_json(*doctor, options->json, "print the same as one JSON object");
  add_choice(*doctor, "--device", options->run.device, choices<Device>(),
             "what to look for; cuda also says why there is none");
  add_example(*doctor, "mrmf doctor");
  commands.run(*doctor, [options, &world = commands.world] { print_facts(*options, world); });
}

// What the manual and the shells' completion tell of a command's options.

/// Options that --help shows, in its order; first those with names, then positional ones.
inline std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([=](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

/// "-o, --output", or the name of a positional option.
inline std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name(true));
  return names;
}

/// Whether a value follows the option's name.
inline bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The words that the option takes, if only a few: what CLI11 writes as "TEXT:{cpu,cuda}".
inline std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> words;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return words;
  std::string word;
  for (const char c : type.substr(begin + 1, end - begin - 1)) {
    if (c != ',') word += c;
    if (c == ',') words.push_back(std::exchange(word, {}));
  }
  words.push_back(word);
  return words;
}

/// The command with all its subcommands, each before its own.
inline std::vector<const CLI::App*> with_subcommands(const CLI::App& app) {
  std::vector<const CLI::App*> all{&app};
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const CLI::App* each : with_subcommands(*sub)) all.push_back(each);
  return all;
}

/// "mrmf simulate fields".
inline std::string command_words(const CLI::App& app) {
  return app.get_parent() == nullptr ? "mrmf" : command_words(*app.get_parent()) + " " + app.get_name();
}

namespace {

// Text as roff reads it literally: backslashes, hyphens that are minus signs, and lines that would be requests.
std::string roff(const std::string& text) {
  std::string out;
  bool begin = true;
  for (const char c : text) {
    if (begin && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    begin = c == '\n';
  }
  return out;
}

// "TEXT" or "INT:POSITIVE" as the reader's name for a value: "TEXT", "INT"; words stand in the text below.
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return roff(type.substr(0, type.find(':')));
}

std::string option_text(const CLI::Option& option) {
  std::string heads;
  for (const std::string& name : names_of(option)) heads += (heads.empty() ? "" : ", ") + roff(name);
  std::string text = ".TP\n\\fB" + heads + "\\fR";
  if (takes_value(option) && !option.get_positional()) text += " \\fI" + value_name(option) + "\\fR";
  text += "\n" + roff(option.get_description());
  if (const auto words = words_of(option); !words.empty())
    text += roff(fmt::format("; one of {}", fmt::join(words, ", ")));
  if (option.get_required()) text += "; required";
  if (!option.get_default_str().empty()) text += roff("; " + option.get_default_str() + " unless given");
  return text + ".\n";
}

std::string synopsis(const CLI::App& app) {
  std::string text = command_words(app);
  for (const CLI::Option* option : shown_options(app, true))
    text += " " + names_of(*option).front() + (option->get_items_expected_max() > 1 ? "..." : "");
  return text + (app.get_subcommands([](const CLI::App*) { return true; }).empty() ? " [options]" : " command ...");
}

// The footer is "Example:" and commands behind two spaces.
std::string example_text(const CLI::App& app) {
  const std::string footer = app.get_footer();
  const std::size_t first = footer.find('\n');
  if (first == std::string::npos) return "";
  return ".PP\nExample:\n.PP\n.EX\n" + roff(footer.substr(first + 1)) + "\n.EE\n";
}

std::string command_text(const CLI::App& app) {
  std::string text = ".SS \"" + roff(synopsis(app)) + "\"\n" + roff(app.get_description()) + ".\n";
  for (const bool positional : {true, false})
    for (const CLI::Option* option : shown_options(app, positional))
      if (names_of(*option).back() != "--help") text += option_text(*option);
  return text + example_text(app);
}

std::string manual(const CLI::App& app) {
  std::string text = fmt::format(
      ".\\\" Made by mrmf manual.\n.TH MRMF 1 \"\" \"mrmf {}\" \"User Commands\"\n.SH NAME\nmrmf \\- train "
      "convolutional networks by multi\\-resolution model fusion\n.SH SYNOPSIS\n.B mrmf\n.I command\n.RI [ options "
      "]\n.PP\n.B mpirun \\-n\n.I ranks\n.B mrmf\n.I command\n.RI [ options ]\n.SH DESCRIPTION\n{}\n.PP\nEvery command "
      "has \\fB\\-\\-help\\fR.\n",
      roff(kVersion), roff(app.get_description()));
  text += ".SH COMMANDS\n";
  for (const CLI::App* each : with_subcommands(app))
    if (each != &app) text += command_text(*each);
  return text +
         ".SH CONFIGURATION\nA run is described by one TOML file. \\fBmrmf presets \\-\\-keys\\fR prints every key "
         "with its default and meaning.\n.SH ENVIRONMENT\n.TP\n.B MRMF_CUDA_MODULE\nthe file with the CUDA backend, "
         "where it is not in its usual place.\n.TP\n.B MRMF_MAX_CPU_ISA\nthe largest instruction set to use: generic, "
         "avx2 or avx512.\n";
}

}  // namespace

void add_manual(Subcommands& commands) {
  CLI::App* sub = commands.app.add_subcommand("manual", "print the manual page mrmf(1), for man -l");
  add_example(*sub, "mrmf manual > mrmf.1");
  commands.run(*sub, [&app = commands.app, &world = commands.world] {
    if (world.root()) std::cout << manual(app);
  });
}

// `mrmf completion`: a script by which bash completes commands, options, their words, and keys behind --set.

namespace {

// Finds the command among the words so far. bash splits words at "=", so that `--set key=value` is four of them.
constexpr const char* kHead = R"(# bash completion of mrmf, made by `mrmf completion bash`
_mrmf() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} before="" command=mrmf words="" i
  if ((COMP_CWORD > 1)); then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ " $_mrmf_commands " == *" ${command// //}/${COMP_WORDS[i]} "* ]]; then command+=" ${COMP_WORDS[i]}"; fi
  done
  if [[ $current == = ]]; then current="" before=$previous previous='='; fi
  if [[ $previous == = && $before == --* ]]; then previous=$before before=""; fi
  if [[ $previous == --set ]]; then
    words=$_mrmf_keys
    compopt -o nospace
  elif [[ $previous == = ]]; then
    _mrmf_values "$before"
  else
    _mrmf_words "$command" "$previous" "$current"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
)";

std::string list(const std::vector<std::string>& words) { return fmt::format("\"{}\"", fmt::join(words, " ")); }

// Sets `words` for what may follow the words `previous` of a command.
std::string command_case(const CLI::App& app) {
  std::vector<std::string> names, subcommands;
  std::string values, quiet;
  for (const CLI::Option* option : shown_options(app, false)) {
    const std::vector<std::string> own = names_of(*option);
    names.insert(names.end(), own.begin(), own.end());
    if (const auto words = words_of(*option); !words.empty())
      values += fmt::format("        {}) words={}; return 0 ;;\n", fmt::join(own, "|"), list(words));
    else if (takes_value(*option))
      quiet += fmt::format("{}{}", quiet.empty() ? "" : "|", fmt::join(own, "|"));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    subcommands.push_back(sub->get_name());
  if (!quiet.empty()) values += "        " + quiet + ") return 0 ;;\n";  // a file or a number
  std::string words;
  for (const CLI::Option* option : shown_options(app, true))
    for (const std::string& word : words_of(*option)) subcommands.push_back(word);
  std::string text = fmt::format("    \"{}\")\n", command_words(app));
  if (!values.empty()) text += "      case $2 in\n" + values + "      esac\n";
  text += fmt::format("      if [[ $3 == -* ]]; then words={}; else words={}; fi ;;\n", list(names), list(subcommands));
  return text;
}

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> commands, keys;
  std::string cases, values;
  for (const CLI::App* each : with_subcommands(app)) {
    std::string path = command_words(*each);
    std::ranges::replace(path, ' ', '/');
    commands.push_back(path);
    cases += command_case(*each);
  }
  for (const KeyDescription& key : key_list()) {
    if (!key.list.empty()) continue;  // a key of a list, which --set takes as a whole
    keys.push_back(key.path + "=");
    if (!key.words.empty()) values += fmt::format("    {}) words={} ;;\n", key.path, list(key.words));
  }
  return std::string(kHead) + "_mrmf_words() {\n  case $1 in\n" + cases +
         "  esac\n}\n_mrmf_values() {\n  case $1 in\n" + values + "  esac\n}\n_mrmf_commands=" + list(commands) +
         "\n_mrmf_keys=" + list(keys) + "\ncomplete -o default -F _mrmf mrmf\n";
}

}  // namespace

void add_completion(Subcommands& commands) {
  CLI::App* sub = commands.app.add_subcommand(
      "completion", "print a script by which a shell completes commands, options and keys: . <(mrmf completion bash)");
  auto shell = std::make_shared<std::string>();
  sub->add_option("shell", *shell, "the shell")->required()->check(CLI::IsMember({"bash"}));
  add_example(*sub, "mrmf completion bash > mrmf.bash");
  commands.run(*sub, [shell, &app = commands.app, &world = commands.world] {
    if (world.root()) std::cout << bash_completion(app);
  });
}

}  // namespace mrmf
