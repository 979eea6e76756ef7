#include "mpi/shared_counter.hpp"

#include <mpi.h>

#include "mpi/wait.hpp"

namespace mrmf {

struct SharedCounter::State {
  bool alone = true;
  std::int64_t own = 0;  // of one rank alone
  MPI_Win window = MPI_WIN_NULL;
};

SharedCounter::SharedCounter(Comm& comm) : state_(std::make_unique<State>()) {
  state_->alone = comm.size() == 1;
  if (state_->alone) return;
  std::int64_t* counter = nullptr;
  const MPI_Aint bytes = comm.root() ? sizeof(std::int64_t) : 0;
  const MPI_Comm handle = *static_cast<const MPI_Comm*>(comm.handle());
  mpi::check(MPI_Win_allocate(bytes, sizeof(std::int64_t), MPI_INFO_NULL, handle, &counter, &state_->window),
             "MPI_Win_allocate");
  mpi::check(MPI_Win_lock_all(0, state_->window), "MPI_Win_lock_all");
  if (comm.root()) *counter = 0;
  mpi::check(MPI_Win_sync(state_->window), "MPI_Win_sync");
  comm.barrier();
}

SharedCounter::~SharedCounter() {
  if (state_->alone) return;
  MPI_Win_unlock_all(state_->window);
  MPI_Win_free(&state_->window);
}

std::int64_t SharedCounter::next() {
  if (state_->alone) return state_->own++;
  const std::int64_t one = 1;
  std::int64_t got = 0;
  mpi::check(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, state_->window), "MPI_Fetch_and_op");
  mpi::check(MPI_Win_flush(0, state_->window), "MPI_Win_flush");
  return got;
}

}  // namespace mrmf
