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

/// What tells a group from the others, in one line: "MRMF, 1 fusion, [2,2,2] [1,1,1], top dense".
std::string group_title(const Group& group);

// Each is the HTML of one section, without its heading.
std::string summary_section(const std::vector<Group>& groups);
std::string plan_section(const std::vector<Group>& groups);
std::string curves_section(const std::vector<Group>& groups);
std::string time_section(const std::vector<Group>& groups);
std::string savings_section(const std::vector<Group>& groups, const CompareOptions& options);
std::string figures_section(const std::vector<Group>& groups);
std::string configuration_section(const std::vector<Group>& groups);
std::string machine_section(const std::vector<Group>& groups);

}  // namespace mrmf
