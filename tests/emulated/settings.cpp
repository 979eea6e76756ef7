#include "tests/emulated/settings.hpp"

#include <cublasLt.h>
#include <nccl.h>

#include <cstdlib>

namespace mrmf::emulated {
namespace {

long long number(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

}  // namespace

int device_count() { return static_cast<int>(number("MRMF_EMULATED_GPUS", 1)); }
int driver_version() { return static_cast<int>(number("MRMF_EMULATED_DRIVER", 13000)); }
int capability() { return static_cast<int>(number("MRMF_EMULATED_CAPABILITY", 90)); }
bool device_busy() { return number("MRMF_EMULATED_BUSY", 0) != 0; }
int cublaslt_version() { return static_cast<int>(number("MRMF_EMULATED_CUBLASLT", CUBLAS_VERSION)); }
int nccl_version() { return static_cast<int>(number("MRMF_EMULATED_NCCL", NCCL_VERSION_CODE)); }
int faulting_engine() { return static_cast<int>(number("MRMF_EMULATED_FAULTING_ENGINE", -1)); }
int crashing_engine() { return static_cast<int>(number("MRMF_EMULATED_CRASHING_ENGINE", -1)); }
int unrecorded_engine() { return static_cast<int>(number("MRMF_EMULATED_UNRECORDED_ENGINE", -1)); }
int fast_engine() { return static_cast<int>(number("MRMF_EMULATED_FAST_ENGINE", -1)); }
int algorithm_count() { return static_cast<int>(number("MRMF_EMULATED_ALGORITHMS", 2)); }
int fast_algorithm() { return static_cast<int>(number("MRMF_EMULATED_FAST_ALGORITHM", -1)); }
int refused_algorithms() { return static_cast<int>(number("MRMF_EMULATED_REFUSED_ALGORITHMS", 0)); }
bool wrong_bias() { return number("MRMF_EMULATED_WRONG_BIAS", 0) != 0; }
bool zero_recorded_gradients() { return number("MRMF_EMULATED_ZERO_RECORDED_GRADIENTS", 0) != 0; }
bool open_memory() { return number("MRMF_EMULATED_OPEN_MEMORY", 0) != 0; }
bool stuck_collectives() { return number("MRMF_EMULATED_STUCK", 0) != 0; }
const char* trace_file() { return std::getenv("MRMF_EMULATED_TRACE"); }
const char* kernels_file() { return std::getenv("MRMF_EMULATED_KERNELS"); }
std::size_t device_memory() { return static_cast<std::size_t>(number("MRMF_EMULATED_MEMORY", 2LL << 30)); }
bool wrong_engine() { return number("MRMF_EMULATED_WRONG_ENGINE", 0) != 0; }
bool all_engines_wrong() { return number("MRMF_EMULATED_WRONG_ENGINE", 0) == 2; }

}  // namespace mrmf::emulated
