#include "kernels/cpu/kernel_choice.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>
#include <vector>

namespace mrmf::cpu {
namespace {

constexpr std::array<const char*, 3> kKinds{"conv", "norm_conv", "conv_pool"};

/// All numbers of a problem, in the order of its text.
std::vector<Index> numbers_of(const ConvProblem& p) {
  const ConvGeometry& g = p.geometry;
  std::vector<Index> numbers{p.rows, p.threads, p.window, g.in_channels, g.out_channels, g.bias ? 1 : 0};
  for (const Extent& extent : {g.in, g.kernel, g.stride, g.pad_before, g.pad_after, g.dilation})
    numbers.insert(numbers.end(), extent.begin(), extent.end());
  return numbers;
}

ConvProblem problem_of(ConvProblem::Kind kind, const std::vector<Index>& numbers) {
  auto at = numbers.begin();
  ConvProblem p{kind};
  p.rows = *at++;
  p.threads = static_cast<int>(*at++);
  p.window = *at++;
  p.geometry.in_channels = *at++;
  p.geometry.out_channels = *at++;
  p.geometry.bias = *at++ != 0;
  for (Extent ConvGeometry::*extent : {&ConvGeometry::in, &ConvGeometry::kernel, &ConvGeometry::stride,
                                       &ConvGeometry::pad_before, &ConvGeometry::pad_after, &ConvGeometry::dilation})
    for (Index& number : p.geometry.*extent) number = *at++;
  return p;
}

/// Whether a convolution can have these sizes, in memory that can be counted.
bool sound(const ConvProblem& p) {
  constexpr Index most = Index{1} << 20;
  for (const Index number : numbers_of(p))
    if (number < -most || number > most) return false;
  const ConvGeometry& g = p.geometry;
  const auto positive = [](const Extent& extent) { return std::ranges::all_of(extent, [](Index n) { return n > 0; }); };
  return p.rows > 0 && p.threads > 0 && p.window > 0 && g.in_channels > 0 && g.out_channels > 0 && positive(g.in) &&
         positive(g.kernel) && positive(g.stride) && positive(g.dilation) && positive(g.out());
}

}  // namespace

std::string ConvProblem::text() const {
  std::string line = kKinds.at(static_cast<std::size_t>(kind));
  for (const Index number : numbers_of(*this)) line += " " + std::to_string(number);
  return line;
}

std::optional<ConvProblem> ConvProblem::parse(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  words >> kind;
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end()) return std::nullopt;
  std::vector<Index> numbers;
  for (Index number = 0; words >> number;) numbers.push_back(number);
  if (!words.eof() || numbers.size() != numbers_of({}).size()) return std::nullopt;
  const ConvProblem problem = problem_of(static_cast<Kind>(found - kKinds.begin()), numbers);
  if (!sound(problem)) return std::nullopt;
  return problem;
}

const KernelChoice* KernelChoices::find(const ConvProblem& problem) {
  const std::string text = problem.text();
  asked_.insert(text);
  if (problem.kind == ConvProblem::Kind::conv_pool) {  // in one pass, the convolution by itself is not run
    ConvProblem alone = problem;
    alone.kind = ConvProblem::Kind::conv, alone.window = 1;
    asked_.erase(alone.text());
  }
  const auto found = choices_.find(text);
  return found == choices_.end() ? nullptr : &found->second;
}

void KernelChoices::put(const std::string& problem, KernelChoice choice) {
  choices_.insert_or_assign(problem, std::move(choice));
}

std::set<std::string> KernelChoices::open() const {
  std::set<std::string> open = asked_;
  for (const auto& [problem, choice] : choices_) open.erase(problem);
  return open;
}

std::string KernelChoices::text() const {
  std::ostringstream lines;
  lines.precision(6);
  for (const auto& [problem, choice] : choices_)
    lines << problem << '\t' << choice.kernels << '\t' << choice.fixed << '\t' << choice.chosen << '\n';
  return lines.str();
}

bool KernelChoices::add(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::map<std::string, KernelChoice> added;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string problem;
    KernelChoice choice;
    if (!std::getline(fields, problem, '\t') || !std::getline(fields, choice.kernels, '\t') ||
        !(fields >> choice.fixed >> choice.chosen) || !ConvProblem::parse(problem))
      return false;
    added.insert_or_assign(problem, std::move(choice));
  }
  for (auto& [problem, choice] : added) put(problem, std::move(choice));
  return true;
}

}  // namespace mrmf::cpu
