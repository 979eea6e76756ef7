// Unit tests run as one MPI rank: parallel HDF5 needs MPI also then.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "mpi/comm.hpp"

int main(int argc, char** argv) {
  const mrmf::MpiSession mpi(argc, argv);
  doctest::Context context(argc, argv);
  return context.run();
}
