// The rows of the comparison that say what training cost, once in seconds and once in arithmetic.
#pragma once

#include <functional>

#include "src/compare/compare_paper.hpp"
#include "src/compare/runs.hpp"

namespace mrmf {

class CostRows {
 public:
  /// `groups` must outlive this. With a target, also what it cost to reach that validation loss.
  CostRows(const std::vector<Group>& groups, std::optional<double> target);

  std::vector<std::string> names() const;
  std::vector<std::string> cells(const Group& group) const;        ///< one per name
  std::vector<std::string> cells(const PaperColumn& paper) const;  ///< one per name; the paper has seconds alone

 private:
  /// Seconds, or arithmetic in a unit that suits the longest run.
  struct Measure {
    std::string name, unit;
    double Cost::*value;
    double scale = 1;
  };

  void add_cells(const Group& group, const Measure& measure, std::vector<std::string>& cells) const;
  std::string saved(const Group& group, const std::string& method, const Figure& figure) const;

  const std::vector<Group>& groups_;
  std::optional<double> target_;
  int stages_ = 0;  ///< largest number of fusion stages
  std::vector<Measure> measures_;
};

}  // namespace mrmf
