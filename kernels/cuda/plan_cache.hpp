// Measured cuDNN plans kept on disk, so that a later run on the same kind of device neither compiles nor times again;
// and the engines that broke the device there, so that it does not try them again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
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

  /// Engines of a kind of problem ("forward, bf16") that left the device unusable.
  std::set<std::string> avoided(const std::string& kind) const;
  void avoid(const std::string& kind, const std::string& engine);

  const std::filesystem::path& file() const { return file_; }
  std::string text() const;  ///< what the file is to hold

 private:
  std::string key(const std::string& problem) const { return problem + " on " + device_; }

  std::filesystem::path file_;
  std::string device_;
  std::string ignored_;
  std::map<std::string, KeptPlan> plans_;
  std::map<std::string, std::set<std::string>> avoided_;
};

}  // namespace mrmf::cuda
