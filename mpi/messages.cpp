#include "mpi/messages.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

using mpi::check;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(Comm& group) : group_(&group), comm_(*static_cast<const MPI_Comm*>(group.handle())) {}

  int rank() const override { return group_->rank(); }

  void start(std::span<const Message> sent, std::span<const Message> received) override {
    MRMF_CHECK(under_way_.empty(), "messages were begun before the last ones were done");
    const Clock::time_point began = Clock::now();
    for (const Message& m : received)
      for_each_part(m, [&](float* part, int count, int number, MPI_Request* request) {
        check(MPI_Irecv(part, count, MPI_FLOAT, m.rank, number, comm_, request), "MPI_Irecv");
      });
    for (const Message& m : sent)
      for_each_part(m, [&](float* part, int count, int number, MPI_Request* request) {
        check(MPI_Isend(part, count, MPI_FLOAT, m.rank, number, comm_, request), "MPI_Isend");
      });
    time_.waited += seconds_since(began);
    since_ = Clock::now();
  }

  void finish() override {
    if (under_way_.empty()) return;
    time_.hidden += seconds_since(since_);
    const Clock::time_point began = Clock::now();
    for (mpi::Request& request : under_way_) request.finish(group_->limit());
    under_way_.clear();
    time_.waited += seconds_since(began);
  }

  SumTime take_time() override { return std::exchange(time_, {}); }

 private:
  // MPI counts in an int, and some transports in bytes.
  template <class Begin>
  void for_each_part(const Message& m, const Begin& begin) {
    constexpr std::size_t most = (std::size_t{1} << 30) / sizeof(float);
    int number = 0;
    for (std::size_t first = 0; first < m.values.size(); first += most, ++number) {
      const std::size_t count = std::min(most, m.values.size() - first);
      begin(m.values.data() + first, static_cast<int>(count), number,
            under_way_.emplace_back("a message between the ranks of a grid").begun());
    }
  }

  Comm* group_;
  MPI_Comm comm_;
  std::vector<mpi::Request> under_way_;
  Clock::time_point since_;  // since the last start
  SumTime time_;
};

}  // namespace

std::unique_ptr<Messages> make_messages(Comm& group) { return std::make_unique<MpiMessages>(group); }

}  // namespace mrmf
