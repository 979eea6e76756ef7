// A device backend seen from the host's memory: every call copies its inputs there and its outputs back, so that tests
// written for memory they can look at run on a device as they are.
#pragma once

#include <memory>

#include "kernels/backend.hpp"

namespace mrmf::test {

/// Beyond copying, each call fills its outputs on the device with NaN before, and throws FaultError when it left pad
/// channels other than zero or wrote outside of a buffer.
std::unique_ptr<Backend> make_host_view(std::unique_ptr<Backend> device);

}  // namespace mrmf::test
