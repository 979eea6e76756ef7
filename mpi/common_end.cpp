#include "mpi/common_end.hpp"

#include <mpi.h>

#include <cstdint>

#include "kernels/errors.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

// The smallest number of all ranks is what they end with: first errors, then what is neither an error nor success.
enum class Urgency : std::int64_t { error, stop, success };

std::int64_t packed(const CommonEnd::Mine& mine, int rank) {
  const Urgency urgency = mine.failed ? Urgency::error : mine.exit_code != 0 ? Urgency::stop : Urgency::success;
  return static_cast<std::int64_t>(urgency) << 48 | std::int64_t{rank} << 8 | (mine.exit_code & 0xff);
}

CommonEnd::Common unpacked(std::int64_t number) {
  const bool failed = number >> 48 == static_cast<std::int64_t>(Urgency::error);
  return {static_cast<int>(number & 0xff), failed ? static_cast<int>(number >> 8 & 0xffffffff) : -1};
}

}  // namespace

struct CommonEnd::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  std::int64_t least = 0;  // the least of all ranks; here, because MPI may write to it after it was given up

  State() {
    mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    mpi::check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi::check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  }
  ~State() { MPI_Comm_free(&comm); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

CommonEnd::CommonEnd() : state_(std::make_unique<State>()) {}
CommonEnd::~CommonEnd() = default;

std::optional<CommonEnd::Common> CommonEnd::agree(const Mine& mine) const {
  if (mpi::abandoned_calls()) return {};
  std::int64_t& least = state_->least;
  least = packed(mine, state_->rank);
  try {
    mpi::Request request("MPI_Iallreduce");
    mpi::check(MPI_Iallreduce(MPI_IN_PLACE, &least, 1, MPI_INT64_T, MPI_MIN, state_->comm, request.begun()),
               "MPI_Iallreduce");
    const WaitLimit limit{mine.failed ? kLimit : 0};
    request.finish(limit);
  } catch (const FaultError&) {  // MPI itself is broken, or the others do not come
    return {};
  }
  return unpacked(least);
}

}  // namespace mrmf
