// What the labels of a data set hold, gathered one by one. Private to src/data.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

constexpr std::size_t kFewNumbers = 16;  ///< as few different numbers as this are hardly measured ones

struct LabelValues {
  static constexpr Index kMostCounted = 65536;  ///< whole numbers of which is known which there are

  bool whole = true, from_0_to_1 = true;
  double least = 0, most = 0;
  Index count = 0;
  std::bitset<kMostCounted> classes;  ///< which of the whole numbers from 0 on there are
  std::set<float> others;             ///< of all other numbers a few
  bool one_hot = true;                ///< every label has a single 1, and zeros, but for rounding
  bool marked = true;                 ///< every label has a single number that is larger than all others, which are one
  std::optional<std::pair<float, float>> marks{};  ///< these: the others, and the larger one
  std::set<std::string> words;                     ///< the different ones, of labels that are words

  void add(float value);
  /// A label of several numbers. One that is not finite says nothing: its row is left out.
  void add_label(ConstSpan label);
  std::size_t distinct() const { return classes.count() + others.size(); }
  std::vector<float> listed() const;  ///< the different numbers, where they are few
  /// Of words that are classes by themselves, and may not be meant so, what is odd; "" where nothing is.
  std::string odd_words() const;
};

}  // namespace mrmf
