// Stands before MPI's own MPI_Comm_split (its profiling interface): rank 1 comes to the call and hangs there.
#include <mpi.h>
#include <unistd.h>

extern "C" int MPI_Comm_split(MPI_Comm comm, int colour, int order, MPI_Comm* made) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  while (rank == 1) pause();
  return PMPI_Comm_split(comm, colour, order, made);
}
