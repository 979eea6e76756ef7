#include "tests/emulated/settings.hpp"

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
std::size_t device_memory() { return static_cast<std::size_t>(number("MRMF_EMULATED_MEMORY", 2LL << 30)); }
bool wrong_engine() { return number("MRMF_EMULATED_WRONG_ENGINE", 0) != 0; }
bool all_engines_wrong() { return number("MRMF_EMULATED_WRONG_ENGINE", 0) == 2; }

}  // namespace mrmf::emulated
