// A file that a command writes, as its command line names it.
#pragma once

#include <string>
#include <vector>

#include "io/output_file.hpp"

namespace mrmf {

/// Where its option is not given, nothing is written.
struct OutputOption {
  std::string file;
  Replace replace = Replace::nothing;

  bool given() const { return !file.empty(); }
  /// Before the work begins: errors as require_output()'s.
  void require(const std::vector<std::string>& inputs = {}) const {
    if (given()) require_output(file, replace, inputs);
  }
  void write(const std::string& text) const {
    if (given()) write_file(file, text, replace);
  }
};

}  // namespace mrmf
