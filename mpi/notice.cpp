#include "mpi/notice.hpp"

#include "mpi/wait.hpp"

namespace mrmf {

struct Notice::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int other = 0;
  double limit = 0;
  bool sent = false;
  char out = 1, in = 0;
  mpi::Request sending{"MPI_Isend"}, receiving{"MPI_Irecv"};
};

Notice::Notice(const Comm& comm, int other) : state_(std::make_unique<State>()) {
  state_->comm = *static_cast<const MPI_Comm*>(comm.handle());
  state_->other = other;
  state_->limit = comm.limit();
  mpi::check(MPI_Irecv(&state_->in, 1, MPI_CHAR, other, 0, state_->comm, state_->receiving.begun()), "MPI_Irecv");
}
Notice::Notice(Notice&&) noexcept = default;
Notice& Notice::operator=(Notice&&) noexcept = default;
Notice::~Notice() = default;

void Notice::send() {
  state_->sent = true;
  mpi::check(MPI_Isend(&state_->out, 1, MPI_CHAR, state_->other, 0, state_->comm, state_->sending.begun()),
             "MPI_Isend");
}

bool Notice::arrived() { return state_->receiving.test(); }

void Notice::finish() {
  if (!state_->sent) send();
  state_->receiving.finish(state_->limit);
  state_->sending.finish(state_->limit);
}

}  // namespace mrmf
