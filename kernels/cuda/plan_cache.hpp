// Measured cuDNN plans kept on disk, so that a later run on the same kind of device neither compiles nor times again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mrmf::cuda {

struct KeptPlan {
  std::string plan;           ///< what ConvPlan::json() gave
  double microseconds = 0.0;  ///< measured on the device
  std::size_t workspace = 0;  ///< bytes
};

/// A JSON file of plans by problem, device name and cuDNN version; plans of other devices in it are kept. A file that
/// is damaged, foreign or of another format is ignored, not an error: the plans are then made anew.
class PlanCache {
 public:
  /// Reads the file if there is one. `device` is DeviceModel::key().
  PlanCache(std::filesystem::path file, std::string device);

  /// Why the file is not used; empty when it is, or when there is none yet.
  const std::string& ignored() const { return ignored_; }

  std::optional<KeptPlan> find(const std::string& problem) const;  ///< problem: describe(ConvProblem)
  void put(const std::string& problem, const KeptPlan& plan);

  /// Writes the file whole or not at all, replacing what stood there. Why that was impossible; empty when it went well.
  std::string save() const;

 private:
  std::string key(const std::string& problem) const { return problem + " on " + device_; }

  std::filesystem::path file_;
  std::string device_;
  std::string ignored_;
  std::map<std::string, KeptPlan> plans_;
};

}  // namespace mrmf::cuda
