// Which rows of given data a model was trained on.
#pragma once

#include <string>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/inference/model_choice.hpp"

namespace mrmf {

/// Says that the samples are among the rows that the model was trained on, with how many of them where the training
/// files are still there; "" where none is. `shape` is what inspect_dataset() found of `spec`. Rows that training left
/// out, because not all of their numbers are finite, count as its own. The same on every rank. Collective; reads
/// headers, and of a split by a column that column.
std::string training_rows_text(const ModelChoice& choice, const DatasetSpec& spec, const DatasetShape& shape,
                               Comm& world);

}  // namespace mrmf
