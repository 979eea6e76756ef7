#include "kernels/cuda/conv_plan.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "kernels/errors.hpp"

namespace mrmf::cuda {
namespace {

constexpr std::array modes{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};

std::string megabytes(std::size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB"; }

}  // namespace

ConvProposals::ConvProposals(const ConvProblem& problem, const DeviceModel& device, std::size_t workspace)
    : problem_(problem), device_(device), workspace_(workspace), graph_(make_conv_graph(problem, device)) {}

std::optional<EngineConfig> ConvProposals::next() {
  while (position_ < pending_.size() || refill()) {
    EngineConfig& config = pending_[position_++];
    ++seen_;
    if (!known_.insert({config.engine, config.knobs}).second) continue;
    const std::string reason = objection(config);
    if (reason.empty()) return std::move(config);
    refuse(config, reason);
  }
  return std::nullopt;
}

void ConvProposals::refuse(const EngineConfig& config, const std::string& reason) {
  last_refusal_ = describe(config) + ": " + reason;
}

bool ConvProposals::refill() {
  while (mode_ < modes.size()) {
    pending_ = propose_engines(graph_, modes[mode_++], device_);
    position_ = 0;
    if (!pending_.empty()) return true;
  }
  return false;
}

/// Why an engine must not be used; empty when it may.
std::string ConvProposals::objection(const EngineConfig& config) {
  const EngineNotes& notes = config.notes;
  if (notes.reduced_reduction) return "sums are kept in fp32";
  if (problem_.deterministic && notes.nondeterministic) return "the run is deterministic";
  if (problem_.precision == Precision::fp32 && notes.tensor_cores) return "fp32 is not rounded to tf32";
  if (problem_.precision == Precision::fp32 && notes.transforms) return "fp32 takes the products as they are";
  if (problem_.precision != Precision::bf16 && notes.down_converts) return "inputs are not narrowed";
  if (config.workspace > workspace_) {
    return "wants " + megabytes(config.workspace) + " of workspace, the limit is " + megabytes(workspace_);
  }
  return "";
}

namespace {

std::string by_x(const Extent& e) {
  return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]);
}

std::string to_string(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward: return "forward";
    case ConvPass::backward_data: return "backward data";
    case ConvPass::backward_weights: return "backward weights";
  }
  return "?";
}

std::string to_string(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

/// "engine 11" of "engine 11 (knobs 24=26), tensor cores".
std::string engine_of(const std::string& description) {
  const std::size_t number = description.find(' ') + 1;
  return description.substr(0, description.find_first_of(" ,", number));
}

}  // namespace

std::string describe(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  std::string text = to_string(problem.pass) + " " + std::to_string(g.in_channels) + "->" +
                     std::to_string(g.out_channels) + " k" + by_x(g.kernel) + " s" + by_x(g.stride) + " p" +
                     by_x(g.pad_before) + "+" + by_x(g.pad_after) + " at " + by_x(g.in) + ", " +
                     std::to_string(problem.rows) + " rows, " + to_string(problem.precision);
  if (g.dilation != Extent{1, 1, 1}) text += ", dilation " + by_x(g.dilation);
  if (problem.bias) text += ", bias";
  if (problem.deterministic) text += ", deterministic";
  return text;
}

std::string kind_of(const ConvProblem& problem) {
  return to_string(problem.pass) + ", " + to_string(problem.precision) + (problem.bias ? ", bias" : "");
}

ConvPlan::ConvPlan(const ConvProblem& problem, ExecutionPlan plan, std::string description)
    : pass_(problem.pass), bias_(problem.bias), plan_(std::move(plan)), description_(std::move(description)) {}

std::string ConvPlan::engine() const { return engine_of(description_); }

std::string ConvPlan::json() const {
  return nlohmann::json{{"description", description_}, {"plan", plan_.json()}, {"bias", bias_}}.dump();
}

void ConvPlan::run(cudnnHandle_t handle, const ConvPointers& pointers, void* workspace) const {
  plan_.run(handle, bind_conv(pass_, bias_, pointers), workspace);
}

ConvCandidates::ConvCandidates(const ConvProblem& problem, const DeviceModel& device, PlanLimits limits)
    : problem_(problem), device_(device), limits_(std::move(limits)), proposals_(problem_, device, limits_.workspace) {}

std::optional<ConvPlan> ConvCandidates::next() {
  while (given_ < limits_.candidates) {
    std::optional<EngineConfig> config = proposals_.next();
    if (!config) return std::nullopt;
    if (limits_.avoid.contains(engine_of(describe(*config)))) {
      proposals_.refuse(*config, "it broke the device before");
    } else if (config->notes.compiled) {
      if (static_cast<int>(to_compile_.size()) < limits_.compiled) to_compile_.push_back(std::move(*config));
    } else if (std::optional<ConvPlan> plan = make(*config)) {
      ++given_;
      return plan;
    }
  }
  return std::nullopt;
}

std::optional<ConvPlan> ConvCandidates::next_compiled() {
  while (!to_compile_.empty()) {
    const EngineConfig config = std::move(to_compile_.front());
    to_compile_.pop_front();
    if (std::optional<ConvPlan> plan = make(config)) return plan;
  }
  return std::nullopt;
}

std::optional<ConvPlan> ConvCandidates::make(const EngineConfig& config) {
  if (limits_.trying) limits_.trying(engine_of(describe(config)));
  std::string reason;
  std::optional<ExecutionPlan> plan = ExecutionPlan::make(config, device_, reason);
  if (plan) return ConvPlan(problem_, std::move(*plan), describe(config));
  proposals_.refuse(config, reason);
  return std::nullopt;
}

std::string ConvCandidates::refusals() const {
  return std::to_string(proposals_.seen()) + " proposals of cuDNN" +
         (proposals_.last_refusal().empty() ? "" : ", the last refused: " + proposals_.last_refusal());
}

ConvPlan conv_plan_from_json(const ConvProblem& problem, const DeviceModel& device, const std::string& text) {
  const nlohmann::json kept = nlohmann::json::parse(text, nullptr, false);
  if (!kept.is_object() || !kept.contains("plan") || !kept.contains("description") || !kept["plan"].is_string() ||
      !kept["description"].is_string() || !kept.value("bias", nlohmann::json(true)).is_boolean()) {
    throw FaultError("the kept plan for " + describe(problem) + " is damaged");
  }
  ConvProblem of_plan = problem;
  of_plan.bias = problem.bias && kept.value("bias", true);
  return ConvPlan(of_plan, ExecutionPlan::from_json(kept["plan"], device), kept["description"]);
}

namespace {

constexpr const char* format_name = "mrmf cuDNN plans";
constexpr int format_version = 1;  // raise it when the meaning of entries changes

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
  if (!std::filesystem::is_regular_file(file_, none)) {  // opening a FIFO would wait
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

namespace {

namespace fs = std::filesystem;

std::string host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// When a process of this host was started, in the kernel's ticks; empty where there is none. Numbers of processes come
/// again, above all in containers.
std::string start_of(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int field_number = 20;  // field 22 of proc(5), counted from the third
  std::string field;
  for (int i = 0; i < field_number; ++i) fields >> field;
  return field;
}

long seconds_now() {
  using std::chrono::system_clock;
  return static_cast<long>(
      std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count());
}

constexpr const char* mark = ".trying-";

bool has_ended(const nlohmann::json& note) {
  if (note.at("host") == host()) return start_of(note.at("pid").get<long>()) != note.at("started").get<std::string>();
  constexpr long longest_trial = 600;
  return seconds_now() - note.at("at").get<long>() > longest_trial;
}

}  // namespace

TrialNote::TrialNote(const fs::path& plans) {
  if (!plans.empty()) file_ = plans.string() + mark + host() + "-" + std::to_string(getpid());
}

void TrialNote::trying(const EngineOfKind& tried) {
  if (file_.empty()) return;
  strike_out();
  const nlohmann::json note{{"kind", tried.kind},
                            {"engine", tried.engine},
                            {"host", host()},
                            {"pid", static_cast<long>(getpid())},
                            {"started", start_of(getpid())},
                            {"at", seconds_now()}};
  std::error_code error;
  if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), error);
  fs::remove(file_, error);  // the note of a process that had this number before
  fs::create_symlink(note.dump(), file_, error);
  noted_ = !error;
  if (error) file_.clear();  // nor would the next one be made
}

void TrialNote::strike_out() {
  std::error_code none;
  if (std::exchange(noted_, false)) fs::remove(file_, none);
}

std::vector<EngineOfKind> take_left_notes(const fs::path& plans) {
  std::vector<EngineOfKind> left;
  if (plans.empty()) return left;
  const fs::path folder = plans.has_parent_path() ? plans.parent_path() : fs::path(".");
  const std::string begins = plans.filename().string() + mark;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code none;
    if (!entry->path().filename().string().starts_with(begins) || !entry->is_symlink(none)) continue;
    const nlohmann::json note = nlohmann::json::parse(fs::read_symlink(entry->path(), none).string(), nullptr, false);
    try {
      if (!has_ended(note)) continue;
      left.push_back({note.at("kind").get<std::string>(), note.at("engine").get<std::string>()});
    } catch (const nlohmann::json::exception&) {  // no note of ours
      continue;
    }
    fs::remove(entry->path(), none);
  }
  return left;
}

}  // namespace mrmf::cuda
