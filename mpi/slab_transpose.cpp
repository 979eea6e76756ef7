#include "mpi/slab_transpose.hpp"

#include <fftw3-mpi.h>

#include <limits>

#include "kernels/errors.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

/// A duplicate whose errors end the program, used while planning. A plan makes its own duplicate of it.
class FatalDuplicate {
 public:
  explicit FatalDuplicate(const Comm& comm) {
    mpi::check(MPI_Comm_dup(*static_cast<const MPI_Comm*>(comm.handle()), &made_), "MPI_Comm_dup");
    mpi::check(MPI_Comm_set_errhandler(made_, MPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler");
  }
  ~FatalDuplicate() { MPI_Comm_free(&made_); }
  FatalDuplicate(const FatalDuplicate&) = delete;
  FatalDuplicate& operator=(const FatalDuplicate&) = delete;
  MPI_Comm get() const { return made_; }

 private:
  MPI_Comm made_ = MPI_COMM_NULL;
};

struct FreeFloats {
  void operator()(float* memory) const { fftwf_free(memory); }
};

}  // namespace

struct SlabTranspose::Plan {
  fftwf_plan plan = nullptr;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { fftwf_destroy_plan(plan); }
};

bool SlabTranspose::fits(int n, int depth, int ranks) {
  const std::int64_t block = n / ranks;
  return ranks == 1 || block * block * depth <= std::numeric_limits<int>::max();
}

// A barrier first, here and below: a rank that never arrives then causes an exception.
SlabTranspose::SlabTranspose(Comm& comm, int n, int depth) : comm_(comm), size_(0), plan_(std::make_unique<Plan>()) {
  MRMF_CHECK(n % comm.size() == 0, "ranks that do not divide the grid");
  MRMF_CHECK(fits(n, depth, comm.size()), "more numbers between two ranks than MPI counts");
  fftwf_mpi_init();
  comm.barrier();
  const mpi::Deadline deadline(comm.wait_limit(), "FFTW's plan of a transposition");
  const FatalDuplicate duplicate(comm);
  const std::ptrdiff_t sizes[] = {n, n}, block = n / comm.size();
  std::ptrdiff_t planes = 0, first = 0, turned_planes = 0, turned_first = 0;
  const auto wanted = fftwf_mpi_local_size_many_transposed(2, sizes, depth, block, block, duplicate.get(), &planes,
                                                           &first, &turned_planes, &turned_first);
  size_ = static_cast<std::size_t>(block) * static_cast<std::size_t>(n) * static_cast<std::size_t>(depth);
  MRMF_CHECK(planes == block && turned_planes == block && first == block * comm.rank() &&
                 static_cast<std::size_t>(wanted) <= size_,
             "FFTW shares the grid out in another way");
  const std::unique_ptr<float, FreeFloats> memory(fftwf_alloc_real(size_));
  plan_->plan = fftwf_mpi_plan_many_transpose(n, n, depth, block, block, memory.get(), memory.get(), duplicate.get(),
                                              FFTW_ESTIMATE);
  MRMF_CHECK(plan_->plan != nullptr, "FFTW has no plan for this transposition");
}

SlabTranspose::~SlabTranspose() = default;

void SlabTranspose::swap(std::span<float> slab) const {
  MRMF_CHECK(slab.size() == size_, "a slab of another size");
  comm_.barrier();
  const mpi::Deadline deadline(comm_.wait_limit(), "FFTW's transposition");
  fftwf_mpi_execute_r2r(plan_->plan, slab.data(), slab.data());
}

}  // namespace mrmf
