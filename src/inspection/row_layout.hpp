// Whether files keep their samples along an axis, one per file, or one per group: guessed by comparing files, and
// groups of a file, with each other.
#pragma once

#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

struct RowLayout {
  RowForm rows = RowForm::axis;
  std::string groups;  ///< data.groups
  /// What may be samples and labels, with the number of all samples as their first axis; attributes are "@<name>".
  /// Numbers that are the same in several samples are not among them: coordinates, for example.
  std::vector<FileArray> arrays;
  std::string why_not{};             ///< groups that look like samples are none; "": nothing is to be said
  std::vector<std::string> reasons;  ///< a line for each guess, for people
};

/// `first` are the arrays of the first file, which an axis of samples is assumed for. Where samples are one per file or
/// per group, as many of either have the same arrays of the same shapes, and no array that could be labels along the
/// first axis. DataError when a file cannot be read.
RowLayout find_rows(const std::vector<std::string>& paths, std::vector<FileArray> first, const GivenNames& given);

}  // namespace mrmf
