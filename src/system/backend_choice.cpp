// Choice of the backend and the number of threads, from the configuration and the machine.
#include "src/system/backend_choice.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <omp.h>

#include "generated/cuda_interface.hpp"
#include "io/files/output_file.hpp"
#include "kernels/cpu/kernel_choice.hpp"
#include "kernels/cpu/threads.hpp"
#include "mpi/cores.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

// The host, and the cores there that the scheduler, a cpuset or a binding leaves to this rank.
std::string host_and_cores() {
  std::string text = host_name();
  for (const int core : process_cores()) text += ' ' + std::to_string(core);
  return text;
}

// Ranks that share this rank's cores: all of the host if unbound, none if each is bound to its own.
int ranks_on_these_cores(Comm& world) { return ranks_of_same(host_and_cores(), world).size(); }

// The number from OMP_NUM_THREADS, else this rank's share of its cores.
int default_threads(int sharing) {
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && std::atoi(wanted) > 0) return std::atoi(wanted);  // "4,2" begins with the outermost level
  const auto cores = static_cast<int>(process_cores().size());
  return std::max(1, (cores > 0 ? cores : omp_get_num_procs()) / sharing);
}

// The file of this name that keeps the fastest ways from run to run; none without a home folder.
std::string in_cache(const std::string& name) {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value != nullptr ? value : "");
  };
  if (const std::string cache = folder("XDG_CACHE_HOME"); cache.starts_with('/')) return cache + "/mrmf/" + name;
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
  if (fixed_kernels(run)) return make_cpu_backend(threads, run.precision);
  return cpu::make_choosing_backend(threads, run.precision,
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
  const int sharing = ranks_on_these_cores(world);  // collective, so before any rank decides by its own environment
  const int threads = wanted > 0 ? wanted : default_threads(sharing);
  cpu::require_threads(threads);
  // OpenMP would bind the threads of all ranks that share cores to the same ones, the first (see leave_shared_node()).
  if (sharing == 1 || omp_get_num_places() == 0) return threads;
#pragma omp parallel num_threads(threads)
  leave_place();
  return threads;
}

std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world) {
  if (wants_cuda(run, world)) return make_gpu_backend(run, world);
  const int threads = choose_threads(run.threads, world);
  omp_set_num_threads(threads);
  return cpu_backend_of(run, threads);
}

std::unique_ptr<Backend> make_inference_backend(RunConfig run, Comm& world) {
  if (!wants_cuda(run, world)) run.precision = Precision::fp32;
  return make_backend(run, world);
}

// The module with the CUDA backend: finds it, opens it, and asks it for devices.

namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libmrmf_cuda.so";

// The folders in which the system looks for the program's libraries. An installed program's, or one that is linked with
// the installed library, are also those of the module (jobs/packaging/install).
std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders;
  void* const program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  // The list's entries and their names lie behind its head.
  std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const list = reinterpret_cast<Dl_serinfo*>(memory.data());
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, list) != 0 || dlinfo(program, RTLD_DI_SERINFO, list) != 0) return folders;
  for (unsigned i = 0; i < list->dls_cnt; ++i) folders.emplace_back((&list->dls_serpath[0] + i)->dls_name);
  return folders;
}

// At MRMF_CUDA_MODULE if that is set, as by tests; beside the program; above it, from build/tests; where its libraries
// are. Beside the program also if it is nowhere.
std::string module_path() {
  if (const char* path = std::getenv("MRMF_CUDA_MODULE")) return path;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> candidates{folder, folder / ".."};
  for (fs::path& candidate : library_folders()) candidates.push_back(std::move(candidate));
  for (const fs::path& candidate : candidates)
    if (fs::exists(candidate / kModule, error)) return (candidate / kModule).string();
  return (folder / kModule).string();
}

// Opens the module. It is never closed: the backend's memory and handles end with the process.
void* module_at(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw ConfigError("run.device = \"cuda\": there is no " + path +
                      "; build mrmf where nvcc and cuDNN are found (make status says), or use run.device = \"cpu\"");
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    throw ConfigError(
        "run.device = \"cuda\": " + std::string(dlerror()) +
        "; put NVIDIA's libraries (cuDNN 9, cuBLAS, NCCL) on LD_LIBRARY_PATH, or use run.device = \"cpu\"");
  const auto interface = reinterpret_cast<const char* (*)()>(dlsym(module, "mrmf_cuda_interface"));
  const std::string theirs = interface == nullptr ? "none" : interface();
  if (theirs != kCudaInterface)
    throw ConfigError(path + " does not fit this mrmf (interface " + theirs + ", wanted " + kCudaInterface +
                      "); build both anew from the same sources, or use run.device = \"cpu\"");
  return module;
}

template <class Function>
Function* function_of_module(const char* name) {
  const std::string path = module_path();
  const auto function = reinterpret_cast<Function*>(dlsym(module_at(path), name));
  if (function == nullptr) throw ConfigError(path + " is not this mrmf's CUDA module; build it anew");
  return function;
}

}  // namespace

bool cuda_is_worth_trying() {
  std::error_code error;
  if (!fs::exists(module_path(), error)) return false;
  if (std::getenv("MRMF_CUDA_MODULE") != nullptr) return true;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

int cuda_device_count() { return function_of_module<int()>("mrmf_cuda_device_count")(); }

std::string cuda_device_address(int device) {
  std::array<char, 32> address{};
  function_of_module<void(int, char*, int)>("mrmf_cuda_device_address")(device, address.data(),
                                                                        static_cast<int>(address.size()));
  return address.data();
}

std::string cuda_device_properties() {
  auto* const describe = function_of_module<int(char*, int)>("mrmf_cuda_device_properties");
  std::string text(static_cast<std::size_t>(describe(nullptr, 0)), '\0');
  describe(text.data(), static_cast<int>(text.size()));
  text.pop_back();  // the final zero
  return text;
}

void cuda_profile(bool on) { function_of_module<void(bool)>("mrmf_cuda_profile")(on); }

std::unique_ptr<Backend> make_cuda_backend(const cuda::Settings& settings) {
  return std::unique_ptr<Backend>(
      function_of_module<Backend*(const cuda::Settings&)>("mrmf_make_cuda_backend")(settings));
}

}  // namespace mrmf
