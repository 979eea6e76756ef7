#include "kernels/cuda/plan_cache.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace mrmf::cuda {
namespace {

constexpr const char* format_name = "mrmf cuDNN plans";
constexpr int format_version = 1;  // raise it when entries change their meaning

/// Throws nlohmann::json::exception when a field is missing or of another type.
std::map<std::string, KeptPlan> plans_of(const nlohmann::json& file) {
  std::map<std::string, KeptPlan> plans;
  for (const auto& [key, entry] : file.at("plans").items()) {
    plans[key] = {entry.at("plan").get<std::string>(), entry.at("microseconds").get<double>(),
                  entry.at("workspace").get<std::size_t>()};
  }
  return plans;
}

}  // namespace

PlanCache::PlanCache(std::filesystem::path file, std::string device)
    : file_(std::move(file)), device_(std::move(device)) {
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) return;
  if (!std::filesystem::is_regular_file(file_, none)) {  // a FIFO would be waited for
    ignored_ = file_.string() + " is not a regular file";
    return;
  }
  std::ifstream stream(file_);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (json.is_discarded()) {
    ignored_ = file_.string() + " cannot be read as JSON";
  } else if (!json.is_object() || json.value("format", nlohmann::json()) != format_name) {
    ignored_ = file_.string() + " is not a file of cuDNN plans";
  } else if (json.value("version", nlohmann::json()) != format_version) {
    ignored_ = file_.string() + " has another version than " + std::to_string(format_version);
  } else {
    try {
      plans_ = plans_of(json);
      avoided_ = json.value("avoided", avoided_);
    } catch (const nlohmann::json::exception&) {
      ignored_ = file_.string() + " has damaged entries";
    }
  }
}

std::optional<KeptPlan> PlanCache::find(const std::string& problem) const {
  const auto found = plans_.find(key(problem));
  if (found == plans_.end()) return std::nullopt;
  return found->second;
}

void PlanCache::put(const std::string& problem, const KeptPlan& plan) { plans_[key(problem)] = plan; }

std::set<std::string> PlanCache::avoided(const std::string& kind) const {
  const auto found = avoided_.find(key(kind));
  return found == avoided_.end() ? std::set<std::string>() : found->second;
}

void PlanCache::avoid(const std::string& kind, const std::string& engine) { avoided_[key(kind)].insert(engine); }

std::string PlanCache::text() const {
  nlohmann::json plans = nlohmann::json::object();
  for (const auto& [key, plan] : plans_) {
    plans[key] = {{"plan", plan.plan}, {"microseconds", plan.microseconds}, {"workspace", plan.workspace}};
  }
  const nlohmann::json json{
      {"format", format_name}, {"version", format_version}, {"plans", std::move(plans)}, {"avoided", avoided_}};
  return json.dump(1) + '\n';
}

}  // namespace mrmf::cuda
