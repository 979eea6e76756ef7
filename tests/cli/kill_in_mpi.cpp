// Stands before MPI's own calls that ranks wait in (its profiling interface): kills the last rank MRMF_KILL_LATER calls
// after its MRMF_KILL_BROADCAST-th broadcast of floats, from 1. Between trainers only models and their moments travel
// so. A test thus knows what a process has done when it is killed. With MRMF_TERM_IN_FINALIZE, rank 0 gets SIGTERM when
// it ends MPI, as from a launcher of which another rank has ended with an error.
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

static void count_call(bool floats) {
  static int broadcasts = 0, later = 0;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *of = std::getenv("MRMF_KILL_BROADCAST"), *after = std::getenv("MRMF_KILL_LATER");
  if (of == nullptr || after == nullptr || rank != ranks - 1) return;
  if (floats && broadcasts < std::atoi(of)) ++broadcasts;
  if (broadcasts == std::atoi(of) && later++ == std::atoi(after)) std::raise(SIGKILL);
}

extern "C" int MPI_Finalize() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && std::getenv("MRMF_TERM_IN_FINALIZE") != nullptr) kill(getpid(), SIGTERM);
  return PMPI_Finalize();
}

extern "C" int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  count_call(type == MPI_FLOAT);
  return PMPI_Ibcast(buffer, count, type, root, comm, request);
}

extern "C" int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                              MPI_Request* request) {
  count_call(false);
  return PMPI_Iallreduce(from, to, count, type, operation, comm, request);
}
