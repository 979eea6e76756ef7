#include "kernels/tensor.hpp"

namespace mrmf {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  throw FaultError(std::string(file) + ":" + std::to_string(line) + ": " + expression + " is false: " + message);
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (int axis = 3 - shape.axes; axis < 3; ++axis)
    text += std::to_string(shape.spatial[static_cast<std::size_t>(axis)]) + "x";
  return text + std::to_string(shape.channels);
}

}  // namespace mrmf
