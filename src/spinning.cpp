#include "src/spinning.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mrmf {

void spin_briefly(char** argv) {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  constexpr const char* kSpins = "1000";  // 20 to 60 us
  if (std::getenv(kVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (getauxval(AT_BASE) == 0) return;  // started as an argument of the dynamic linker, which is the program then
  std::error_code unknown;
  // By its own name, which ps and pkill know.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv(kVariable, kSpins, 0) != 0) return;
  execv(program.c_str(), argv);
}

}  // namespace mrmf
