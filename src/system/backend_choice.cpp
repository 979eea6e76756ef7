// Choice of the backend and the number of threads, from the configuration and the machine.
#include "src/system/backend_choice.hpp"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "io/output_file.hpp"
#include "kernels/cpu/kernel_choice.hpp"
#include "kernels/cpu/threads.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

// The host, and the cores there that the scheduler, a cpuset or a binding leaves to this rank.
std::string place() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);  // stays empty on a host of more than 1024: then all ranks share
  return host_name() + '\0' + std::string(reinterpret_cast<const char*>(&cores), sizeof(cores));
}

// Ranks that share this rank's cores: all of the host if unbound, none if each is bound to its own.
int ranks_on_these_cores(Comm& world) { return ranks_of_same(place(), world).size(); }

// The number from OMP_NUM_THREADS, else this rank's share of its cores.
int default_threads(Comm& world) {
  const int sharing = ranks_on_these_cores(world);  // collective, so before any rank decides by its own environment
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && std::atoi(wanted) > 0) return std::atoi(wanted);  // of a list "4,2", the outermost level
  return std::max(1, omp_get_num_procs() / sharing);
}

// The file of this name that keeps the fastest ways from run to run; none without a home folder.
std::string in_cache(const std::string& name) {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value != nullptr ? value : "");
  };
  if (const std::string cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache + "/mrmf/" + name;
  if (const std::string home = folder("HOME"); !home.empty()) return home + "/.cache/mrmf/" + name;
  return {};
}

// Several ranks and jobs may keep plans in the same file at the same time. The last one's stay.
void replace_plans(const std::string& path, std::string_view text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) make_folders(folder.string());
  write_file(path, text, Replace::file);
}

// Assigns a host's GPUs to its ranks in turn. A scheduler may also show each rank only its own.
int choose_device(const RunConfig& run, Comm& world) {
  const int count = cuda_device_count(), local = ranks_of_same(host_name(), world).rank();
  const int device = count > 0 ? local % count : 0;
  const std::string address = count > 0 ? cuda_device_address(device) : "none";
  const int sharing = ranks_of_same(host_name() + '\0' + address, world).size();
  if (count > 0 && world.any(sharing > 1) && !run.ranks_share_gpu)
    throw ConfigError("several ranks would compute on one GPU (node " + host_name() + ", GPU " + address + ": " +
                      std::to_string(sharing) +
                      " ranks); start as many ranks per node as it has GPUs, or set "
                      "run.ranks_share_gpu = true for a test");
  return device;
}

std::unique_ptr<Backend> make_gpu_backend(const RunConfig& run, Comm& world) {
  omp_set_num_threads(choose_threads(run.threads, world));  // for the host's work: reading, averaging, gathering
  cuda::Settings settings;
  settings.device = choose_device(run, world);
  settings.precision = run.precision;
  settings.deterministic = run.deterministic;
  settings.graphs = run.graphs;
  settings.resident = run.resident;
  settings.share_device = run.ranks_share_gpu;
  settings.limit = world.wait_limit();
  settings.limit.seconds = run.timeout;
  settings.plans = run.plans.empty() ? in_cache("plans.json") : run.plans;
  settings.replace_file = replace_plans;
  return make_cuda_backend(settings);
}

// Kernels whose choice by their times could differ from run to run are for runs that need not have the same bits.
bool fixed_kernels(const RunConfig& run) {
  constexpr const char* variable = "MRMF_CPU_KERNELS";
  const char* const value = std::getenv(variable);
  const std::string wanted = value != nullptr ? value : "";
  if (!wanted.empty() && wanted != "fixed" && wanted != "timed")
    throw ConfigError(std::string(variable) + "=" + wanted + ": there are fixed and timed");
  return run.deterministic || wanted == "fixed";
}

std::unique_ptr<Backend> cpu_backend_of(const RunConfig& run, int threads) {
  if (run.backend == CpuLibrary::reference) return make_reference_backend();
  if (fixed_kernels(run)) return make_cpu_backend(threads);
  return cpu::make_choosing_backend(threads,
                                    cpu::KernelChoices(run.plans.empty() ? in_cache("kernels.txt") : run.plans));
}

// Device::automatic takes the GPU only if every rank has one.
bool wants_cuda(const RunConfig& run, Comm& world) {
  if (run.device == Device::cpu) return false;
  if (run.device == Device::cuda) return true;
  if (world.any(!cuda_is_worth_trying())) return false;
  return !world.any(cuda_device_count() == 0);
}

}  // namespace

int choose_threads(int wanted, Comm& world) {
  const int threads = wanted > 0 ? wanted : default_threads(world);
  cpu::require_threads(threads);
  return threads;
}

std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world) {
  if (wants_cuda(run, world)) return make_gpu_backend(run, world);
  const int threads = choose_threads(run.threads, world);
  omp_set_num_threads(threads);
  return cpu_backend_of(run, threads);
}

}  // namespace mrmf
