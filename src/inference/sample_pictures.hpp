// Masks and fields as pictures.
#pragma once

#include "src/inference/trained.hpp"
#include "src/run/model_report.hpp"

namespace mrmf {

/// Pictures, or curves, of one sample: its first channel, its labels and outputs. Of three axes the slice is shown in
/// which labels differ most. `sample` is (positions, channels) in the network's units, labels and outputs in their own.
/// requires: outputs with positions.
SampleReport picture_of(const Trained& t, const std::string& title, ConstSpan sample, ConstSpan labels,
                        ConstSpan outputs);

/// The colours of these classes in pictures.
std::vector<ClassColour> colours_of(const std::vector<std::string>& classes);

}  // namespace mrmf
