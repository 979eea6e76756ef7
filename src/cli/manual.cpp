// `mrmf manual`: the manual page mrmf(1), made of what --help knows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "generated/version.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/option_text.hpp"

namespace mrmf {
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
      "convolutional "
      "networks by multi\\-resolution model fusion\n.SH SYNOPSIS\n.B mrmf\n.I command\n.RI [ options ]\n.PP\n.B "
      "mpirun \\-n\n.I ranks\n.B mrmf\n.I command\n.RI [ options ]\n.SH DESCRIPTION\n{}\n.PP\nEvery command has "
      "\\fB\\-\\-help\\fR.\n",
      roff(kVersion), roff(app.get_description()));
  text += ".SH COMMANDS\n";
  for (const CLI::App* each : with_subcommands(app))
    if (each != &app) text += command_text(*each);
  return text +
         ".SH CONFIGURATION\nA run is described by one TOML file. \\fBmrmf presets \\-\\-keys\\fR prints every key "
         "with "
         "its default and meaning.\n.SH ENVIRONMENT\n.TP\n.B MRMF_CUDA_MODULE\nthe file with the CUDA backend, where "
         "it "
         "is not in its usual place.\n.TP\n.B MRMF_MAX_CPU_ISA\nthe largest instruction set to use: generic, avx2 or "
         "avx512.\n";
}

}  // namespace

void add_manual(Subcommands& commands) {
  CLI::App* sub = commands.app.add_subcommand("manual", "print the manual page mrmf(1), for man -l");
  add_example(*sub, "mrmf manual > mrmf.1");
  commands.run(*sub, [&app = commands.app, &world = commands.world] {
    if (world.root()) std::cout << manual(app);
  });
}

}  // namespace mrmf
