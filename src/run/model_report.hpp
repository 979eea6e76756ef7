// What a run's model makes of samples that it was not trained on, as plain data: what `mrmf report` shows of a model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// A picture of bytes: red, green and blue of every pixel, row after row.
struct Picture {
  std::string title;
  Index width = 0, height = 0;
  std::vector<std::uint8_t> rgb{};
};

/// Numbers along one axis: of every position, or of some.
struct Curve {
  std::string title;
  std::vector<std::pair<double, double>> points{};  ///< position and number
};

/// One sample: what goes in, what is true, what the model says.
struct SampleReport {
  std::string title;
  std::vector<Picture> pictures{};  ///< arrays of two or three axes, a slice of which is shown
  std::vector<Curve> curves{};      ///< arrays of one axis: true, then predicted
};

/// The colour that a class has in pictures, such as "#e69f00".
struct ClassColour {
  std::string colour, name;
};

/// True and predicted numbers of an output, some of them.
struct OutputPoints {
  std::string name;
  std::vector<std::pair<double, double>> points{};
};

struct ModelReport {
  std::string run;                   ///< its folder
  std::string model{};               ///< which epoch's, and why
  std::string samples{};             ///< how many of what were scored
  std::string command{};             ///< prints the same scores
  std::vector<std::string> names{};  ///< names of classes or outputs; empty: their numbers
  nlohmann::ordered_json scores{};   ///< as `mrmf evaluate --json` prints them; null where there are none
  std::vector<OutputPoints> outputs{};
  std::vector<SampleReport> shown{};
  std::vector<ClassColour> key{};  ///< colours of the classes in pictures
  std::string problem{};           ///< why nothing could be scored; "": it could
};

}  // namespace mrmf
