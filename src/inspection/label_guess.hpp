// What labels are, guessed from their values, type and shape: numbers, yes or no, or classes.
#pragma once

#include <string>
#include <vector>

#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

/// Whether an array may be labels of samples of these axes (data.axes): numbers per sample, or per position of the
/// samples.
bool labels_fit(const FileArray& labels, const FileArray& samples, const std::string& axes);

/// Reads the labels of all files, for training and for validation, and sets guesses.kind and guesses.outputs;
/// guesses.axes and the names are known. Classes are whole numbers in integers, from 0 or 1 on and nearly without gaps,
/// beside which one negative number, or 255, may stand for no label; -1 and 1; words; and one-hot rows, of floats too:
/// guesses.class_values and guesses.ignore say which. A line among the reasons says so where floats look like classes,
/// or classes are many. DataError: labels of several axes whose positions are not the samples', labels that cannot be
/// read, and labels of positions that are a few whole numbers far apart.
void guess_labels(const std::vector<std::string>& paths, const FileArray& labels, const FileArray& samples,
                  DatasetGuess& guesses);

}  // namespace mrmf
