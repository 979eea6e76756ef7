#include "kernels/cuda/check.hpp"

#include <algorithm>
#include <string>

#include "kernels/check.hpp"

namespace mrmf::cuda {

void call_failed(const FailedCall& call, const char* text) {
  std::string message = std::string(call.library) + ": " + text + " in " + call.expression + " (" + call.file + ":" +
                        std::to_string(call.line) + ")";
  std::replace(message.begin(), message.end(), '\n', ' ');
  throw FaultError(message);
}

}  // namespace mrmf::cuda
