// The sections of `mrmf report`'s page. Private to src/compare.
#pragma once

#include <string>
#include <vector>

#include "src/compare/runs.hpp"

namespace mrmf {

/// A table as HTML, in a box that scrolls by itself where the page is narrow. Cells are plain text. Those that begin as
/// a number does are set right.
std::string html_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

/// The text of `mrmf compare` as readers of a page know it: with a plus-minus sign.
std::string typeset(const std::string& text);

/// What tells a set from the others, in one line: "MRMF, 1 fusion, [2,2,2] [1,1,1], top dense".
std::string set_title(const RunSet& run_set);

/// The setting by which two losses are no numbers of one kind, such as "training.loss"; "": they are.
std::string different_losses(const RunSet& a, const RunSet& b);

// Each is the HTML of one section, without its heading.
std::string model_section(const std::vector<ModelReport>& models);
std::string summary_section(const std::vector<RunSet>& sets);
std::string plan_section(const std::vector<RunSet>& sets);
/// Empty where no run is a tournament.
std::string tournament_section(const std::vector<RunSet>& sets);
std::string curves_section(const std::vector<RunSet>& sets);
std::string time_section(const std::vector<RunSet>& sets);
std::string savings_section(const std::vector<RunSet>& sets, const CompareOptions& options);
std::string figures_section(const std::vector<RunSet>& sets);
std::string configuration_section(const std::vector<RunSet>& sets);
std::string machine_section(const std::vector<RunSet>& sets);

}  // namespace mrmf
