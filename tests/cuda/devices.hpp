// The devices that the plans of these tests are for: none is there, each is described (tests/cuda/*.json).
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "kernels/cuda/cudnn.hpp"

namespace mrmf::cuda {

/// name: "h200" or "a100".
inline DeviceModel described_device(const std::string& name) {
  std::ifstream file(std::string(MRMF_DEVICES) + "/" + name + ".json");
  return DeviceModel::from_json({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace mrmf::cuda
