// The CUDA backend's device: memory that operations share.
#include "kernels/cuda/device_and_step.hpp"
#include "tests/emulated/test_support.hpp"

using mrmf::cuda::Device;

TEST_CASE("scratch memory belongs to one operation at a time, and does not move meanwhile") {
  Device device(mrmf::cuda::Settings{});
  device.reserve(Device::Scratch::sums, 64);
  {
    const Device::Lease sums = device.lease(Device::Scratch::sums);
    CHECK(sums.get() != nullptr);
    CHECK_THROWS(device.lease(Device::Scratch::sums));
    CHECK_THROWS(device.reserve(Device::Scratch::sums, 128));
    CHECK_NOTHROW(device.lease(Device::Scratch::output));
  }
  CHECK_NOTHROW(device.reserve(Device::Scratch::sums, 128));
  CHECK_NOTHROW(device.lease(Device::Scratch::sums));
}
