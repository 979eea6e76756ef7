#include "mpi/grid_exchange.hpp"

#include <fftw3-mpi.h>
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

using mpi::check;

constexpr const char* kWhat = "messages between the ranks of a grid";

// The requests of one list of messages. MPI keeps what it found out of them, so that every later start is cheap.
class Requests {
 public:
  Requests(MPI_Comm comm, std::span<const Message> sent, std::span<const Message> received) {
    for (const Message& m : received)
      for_each_part(m, [&](float* part, int count, int number) {
        check(MPI_Recv_init(part, count, MPI_FLOAT, m.rank, number, comm, &add()), "MPI_Recv_init");
      });
    for (const Message& m : sent)
      for_each_part(m, [&](float* part, int count, int number) {
        check(MPI_Send_init(part, count, MPI_FLOAT, m.rank, number, comm, &add()), "MPI_Send_init");
      });
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests() {
    for (MPI_Request& request : all_) MPI_Request_free(&request);
  }

  void start() {
    if (!all_.empty()) check(MPI_Startall(static_cast<int>(all_.size()), all_.data()), "MPI_Startall");
  }
  bool test() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(all_.size()), all_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }

 private:
  // MPI counts in an int, and some transports in bytes.
  template <class Begin>
  void for_each_part(const Message& m, const Begin& begin) {
    constexpr std::size_t most = (std::size_t{1} << 30) / sizeof(float);
    int number = 0;
    for (std::size_t first = 0; first < m.values.size(); first += most, ++number)
      begin(m.values.data() + first, static_cast<int>(std::min(most, m.values.size() - first)), number);
  }
  MPI_Request& add() { return all_.emplace_back(MPI_REQUEST_NULL); }

  std::vector<MPI_Request> all_;
};

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(Comm& group) : group_(&group), comm_(*static_cast<const MPI_Comm*>(group.handle())) {}

  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;
  ~MpiMessages() override {
    if (under_way_ != nullptr) mpi::abandon_calls();
  }

  int rank() const override { return group_->rank(); }

  void start(std::span<const Message> sent, std::span<const Message> received) override {
    MRMF_CHECK(under_way_ == nullptr, "messages were begun before the last ones were done");
    const Timer timer;
    Requests& requests = requests_for(sent, received);
    requests.start();
    under_way_ = &requests;
    time_.waited += timer.seconds();
    since_ = {};
  }

  void finish() override {
    if (under_way_ == nullptr) return;
    time_.hidden += since_.seconds();
    const Timer timer;
    mpi::wait_until([this] { return under_way_->test(); }, kWhat, group_->wait_limit());
    under_way_ = nullptr;
    time_.waited += timer.seconds();
  }

  SumTime take_time() override { return std::exchange(time_, {}); }

 private:
  using Line = std::tuple<bool, int, float*, std::size_t>;  // sent, rank, values
  using List = std::vector<Line>;

  // Every step has the same lists, one for each exchange and direction. Models that are gone leave theirs behind.
  Requests& requests_for(std::span<const Message> sent, std::span<const Message> received) {
    constexpr std::size_t kMost = 4096;
    list_.clear();
    for (const Message& m : sent) list_.emplace_back(true, m.rank, m.values.data(), m.values.size());
    for (const Message& m : received) list_.emplace_back(false, m.rank, m.values.data(), m.values.size());
    if (const auto known = made_.find(list_); known != made_.end()) return known->second;
    if (made_.size() >= kMost) made_.clear();
    return made_.try_emplace(list_, comm_, sent, received).first->second;
  }

  Comm* group_;
  MPI_Comm comm_;
  std::map<List, Requests> made_;
  List list_;                      // the messages of the call under way
  Requests* under_way_ = nullptr;  // the one of made_ that is under way
  Timer since_;                    // since the last start
  SumTime time_;
};

}  // namespace

std::unique_ptr<Messages> make_messages(Comm& group) { return std::make_unique<MpiMessages>(group); }

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
