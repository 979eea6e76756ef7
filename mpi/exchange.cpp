#include "mpi/exchange.hpp"

#include <mpi.h>

#include <limits>
#include <utility>

#include "kernels/check.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

using mpi::check;

MPI_Comm raw(const Comm& comm) { return *static_cast<const MPI_Comm*>(comm.handle()); }

/// Where each rank's piece begins, and the sum of all counts.
std::pair<std::vector<int>, std::size_t> places(const std::vector<int>& counts) {
  std::vector<int> first;
  std::size_t all = 0;
  for (const int count : counts) {
    first.push_back(static_cast<int>(all));
    all += static_cast<std::size_t>(count);
    MRMF_CHECK(all <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "more numbers than MPI counts");
  }
  return {std::move(first), all};
}

}  // namespace

Exchange::Exchange(Comm& comm, std::vector<int> to)
    : comm_(&comm), to_{std::move(to)}, from_{std::vector<int>(static_cast<std::size_t>(comm.size()))} {
  MRMF_CHECK(to_.counts.size() == from_.counts.size(), "one count per rank is needed");
  mpi::Request request("MPI_Ialltoall");
  check(MPI_Ialltoall(to_.counts.data(), 1, MPI_INT, from_.counts.data(), 1, MPI_INT, raw(comm), request.begun()),
        "MPI_Ialltoall");
  request.finish(comm.limit());
  std::tie(to_.first, to_.all) = places(to_.counts);
  std::tie(from_.first, from_.all) = places(from_.counts);
}

void Exchange::send(std::span<const float> values, std::span<float> arrived) const {
  move(values, to_, arrived, from_);
}

void Exchange::answer(std::span<const float> answers, std::span<float> arrived) const {
  move(answers, from_, arrived, to_);
}

void Exchange::move(std::span<const float> from, const Pieces& there, std::span<float> to, const Pieces& here) const {
  MRMF_CHECK(from.size() == there.all && to.size() == here.all, "other lengths than were told");
  mpi::Request request("MPI_Ialltoallv");
  check(MPI_Ialltoallv(from.data(), there.counts.data(), there.first.data(), MPI_FLOAT, to.data(), here.counts.data(),
                       here.first.data(), MPI_FLOAT, raw(*comm_), request.begun()),
        "MPI_Ialltoallv");
  request.finish(comm_->limit());
}

}  // namespace mrmf
