// `mrmf completion`: a script by which bash completes commands, options, their words, and keys behind --set.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/option_text.hpp"
#include "src/config/key_list.hpp"

namespace mrmf {
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
    if (!key.list.empty()) continue;  // of a list, which --set takes as a whole
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
