#include "mpi/pmi_support.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/launched_tasks.hpp"

namespace mrmf {
namespace {

std::vector<std::string> found(const std::string& pattern) {
  glob_t paths{};
  std::vector<std::string> all;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &paths) == 0)
    all.assign(paths.gl_pathv, paths.gl_pathv + paths.gl_pathc);
  ::globfree(&paths);
  return all;
}

/// The folder of MPI's library; "" where it is part of the program.
std::filesystem::path library_folder() {
  Dl_info library{};
  void* const function = ::dlsym(RTLD_DEFAULT, "MPI_Init");
  if (function == nullptr || ::dladdr(function, &library) == 0 || library.dli_fname == nullptr) return {};
  std::error_code unknown;
  return std::filesystem::canonical(library.dli_fname, unknown).parent_path();
}

/// Whether Open MPI was certainly built without PMI-1 and 2: from version 5 on, and before by its plug-ins, of which s1
/// and s2 are for these. Where none is found, they may be part of the library.
bool is_without_pmi() {
  constexpr std::string_view kName = "Open MPI v";
  const std::string version = MpiSession::version();
  if (!version.starts_with(kName)) return false;
  int major = 0;
  std::from_chars(version.data() + kName.size(), version.data() + version.size(), major);
  if (major >= 5) return true;
  const std::string folder = library_folder().string();
  // As usual; Debian's; those of a bundle, which keeps Debian's places below its own libraries.
  for (const std::string plugins : {"/openmpi*", "/openmpi/lib/openmpi*", "/*/openmpi/lib/openmpi*"}) {
    const std::vector<std::string> all = found(folder + plugins + "/mca_pmix_*.so");
    if (all.empty()) continue;
    return std::ranges::none_of(
        all, [](const std::string& path) { return path.ends_with("_s1.so") || path.ends_with("_s2.so"); });
  }
  return false;
}

}  // namespace

void forget_unknown_pmi() {
  if (!only_told_by_sruns_pmi([](const char* name) { return std::getenv(name); }) || !is_without_pmi()) return;
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID"}) ::unsetenv(name);
}

}  // namespace mrmf
