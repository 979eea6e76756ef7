// The module with the CUDA backend: finds it, opens it, and asks it for devices.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "generated/cuda_interface.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
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
  std::vector<fs::path> places{folder, folder / ".."};
  for (fs::path& place : library_folders()) places.push_back(std::move(place));
  for (const fs::path& place : places)
    if (fs::exists(place / kModule, error)) return (place / kModule).string();
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
