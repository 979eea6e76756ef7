// What names of arrays say of them: words such as "train", "val" or "label".
#pragma once

#include <string>
#include <vector>

#include "io/edit_distance.hpp"  // in_small_letters()

namespace mrmf {

/// By the name, as one of its words.
bool is_for_training(const std::string& name);
bool is_held_out(const std::string& name);       ///< validation or test
bool is_only_held_out(const std::string& name);  ///< and not for training, too
bool is_like_labels(const std::string& name);
/// Whether both have the same name, but that one of its words is one for labels: "b_x" and "b_y", "images" and
/// "labels".
bool is_named_beside(const std::string& labels, const std::string& samples);
/// What rows are for, whatever is in it: "split", "fold", "role", ...
bool is_like_split(const std::string& name);
/// A mark of the rows that validate: named as held_out(), or as what is held out.
bool is_like_mark(const std::string& name);
/// Numbers that count or name the samples, or mark a split: hardly what a network is to learn.
bool is_like_row_numbers(const std::string& name);

/// Names with `word` in place of "train" or "training", in small letters: in all places, then in the first alone. None
/// where there is no such word.
std::vector<std::string> partner_names(const std::string& name, const std::string& word);

}  // namespace mrmf
