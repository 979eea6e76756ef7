// The module with the CUDA backend: finds it, opens it, and asks it for devices.
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "generated/cuda_interface.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

// Beside the program or, for tests and unusual installations, at MRMF_CUDA_MODULE.
std::string module_path() {
  if (const char* path = std::getenv("MRMF_CUDA_MODULE")) return path;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / "libmrmf_cuda.so", above = folder / ".." / "libmrmf_cuda.so";  // above build/tests
  return (fs::exists(beside, error) || !fs::exists(above, error) ? beside : above).string();
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

std::unique_ptr<Backend> make_cuda_backend(const cuda::Settings& settings) {
  return std::unique_ptr<Backend>(
      function_of_module<Backend*(const cuda::Settings&)>("mrmf_make_cuda_backend")(settings));
}

}  // namespace mrmf
