#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/launched_tasks.hpp"
#include "mpi/session.hpp"

namespace mrmf {
namespace {

/// A variable of the environment while this lives, where the user has not set it.
class PassingVariable {
 public:
  PassingVariable(const char* name, const char* value) : name_(std::getenv(name) == nullptr ? name : nullptr) {
    if (name_ != nullptr) ::setenv(name_, value, 0);
  }
  PassingVariable(const PassingVariable&) = delete;
  PassingVariable& operator=(const PassingVariable&) = delete;
  ~PassingVariable() {
    if (name_ != nullptr) ::unsetenv(name_);
  }

 private:
  const char* name_;  ///< null: the user has set it
};

/// This program's defaults for Open MPI, which reads them when it starts. The user's environment takes precedence, and
/// programs that this one starts do not get them.
std::vector<std::unique_ptr<PassingVariable>> defaults() {
  std::vector<std::unique_ptr<PassingVariable>> set;
  const auto add = [&](const char* name, const char* value) {
    set.push_back(std::make_unique<PassingVariable>(name, value));
  };
  // Data sieving on reads may return wrong values in the whole 4.1 line (open-mpi/ompi issue 10546).
  add("OMPI_MCA_fbtl_posix_read_datasieving", "0");
  // Warnings that an idle InfiniBand or openib device was not used: true, harmless, and once per rank.
  add("OMPI_MCA_btl_base_warn_component_unused", "0");
  add("OMPI_MCA_btl_openib_warn_no_device_params_found", "0");
  add("OMPI_MCA_btl_openib_warn_default_gid_prefix", "0");
  // Without mpirun: become one rank at once. Otherwise a daemon would be started for processes that are never spawned.
  add("OMPI_MCA_ess_singleton_isolated", "1");
  if (mpi_is_told([](const char* name) { return std::getenv(name); })) return set;
  // In a step of srun Open MPI would look for the others, and end the program where nobody tells it of them.
  ::unsetenv("SLURM_STEP_ID");
  // A user's ranks without mpirun would share one folder for temporary files, which each makes and removes. Of several
  // simultaneous commands some failed in MPI_Init. A single rank needs no such folder.
  add("OMPI_MCA_orte_create_session_dirs", "0");
  // Nor does it look for a fabric: opening Omni-Path's library alone takes 0.2 s.
  add("OMPI_MCA_pml", "ob1"), add("OMPI_MCA_btl", "self");
  // Nor for displays, GPUs, PCI devices and disks, which takes a quarter of a short command's processor time.
  add("HWLOC_COMPONENTS", "-gl,-opencl,-cuda,-nvml,-pci,-linuxio");
  return set;
}

}  // namespace

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  const auto until_started = defaults();
  int provided = MPI_THREAD_SINGLE;
  // If this fails, MPI ends the program with its own message, because no communicator has our handler yet.
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw FaultError("this MPI was built without threads (MPI_THREAD_FUNNELED); load another MPI module");
  }
}

MpiEnvironment::~MpiEnvironment() { MPI_Finalize(); }

int MpiEnvironment::rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiEnvironment::ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

void MpiEnvironment::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not return
}

std::string MpiEnvironment::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string line(text, static_cast<std::size_t>(std::max(length, 0)));
  while (!line.empty() && (line.back() == '\0' || line.back() == '\n')) line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace mrmf
