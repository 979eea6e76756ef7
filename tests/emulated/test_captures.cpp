// Captures of the CUDA backend (kernels/cuda/device_and_step.hpp): one that fails leaves nothing that later work is
// blamed for.
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/cuda/runtime.hpp"
#include "kernels/errors.hpp"
#include "tests/emulated/test_support.hpp"

using namespace mrmf;

namespace {

/// A launch as the backend's kernels are launched: it throws what the runtime has kept.
void add_one(cudaStream_t stream, float* value) {
  cuda::for_each(stream, 1, [=](std::uint32_t) { *value += 1; });
}

std::string failure_of(cudaStream_t stream, const std::function<void()>& calls) {
  try {
    cuda::capture(stream, calls);
  } catch (const FaultError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the next launch is not blamed for a capture that failed") {
  TestStream stream;
  DeviceFloats value(std::vector<float>{0.0F});
  const auto ends_capture = [&] { return cudaStreamSynchronize(stream); };
  const std::vector<std::pair<std::string, std::function<void()>>> failures{
      {"cudaStreamSynchronize", [&] { MRMF_CUDA(cudaStreamSynchronize(stream)); }},  // thrown by the calls
      {"no memory", [] { throw FaultError("no memory"); }},  // by calls that CUDA did not refuse
      {"no memory",
       [&] {
         ends_capture();
         throw FaultError("no memory");
       }},                                                // by both
      {"cudaStreamEndCapture", [&] { ends_capture(); }},  // noticed at the capture's end alone
  };
  float launches = 0;
  for (const auto& [text, calls] : failures) {
    CAPTURE(text);
    CHECK(failure_of(stream, calls).find(text) != std::string::npos);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK_NOTHROW(add_one(stream, value.get()));
    // And the stream can be recorded again.
    CHECK(failure_of(stream, [&] { add_one(stream, value.get()); }).empty());
    synchronize(stream);
    CHECK(value.values()[0] == ++launches);
  }
}

TEST_CASE("an error that was thrown is not kept for the next launch") {
  TestStream stream;
  DeviceFloats value(std::vector<float>{0.0F});
  CHECK_THROWS_AS(MRMF_CUDA(cudaMemsetAsync(value.get(), 0, 4, nullptr)), FaultError);
  CHECK_NOTHROW(add_one(stream, value.get()));
}
