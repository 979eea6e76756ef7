#include "mpi/comm.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/coded_and_fixed_point_sums.hpp"
#include "mpi/reduce_scatter.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

using mpi::check;

// MPI counts elements in an int, and some transports count bytes in one, so long spans go in pieces.
constexpr std::size_t max_bytes = std::size_t{1} << 30;
constexpr std::size_t max_fixed = std::size_t{1} << 20;  // values in fixed point at a time

template <typename T>
MPI_Datatype mpi_type();
template <>
MPI_Datatype mpi_type<float>() {
  return MPI_FLOAT;
}
template <>
MPI_Datatype mpi_type<double>() {
  return MPI_DOUBLE;
}
template <>
MPI_Datatype mpi_type<char>() {
  return MPI_CHAR;
}
template <>
MPI_Datatype mpi_type<int>() {
  return MPI_INT;
}
template <>
MPI_Datatype mpi_type<std::int64_t>() {
  return MPI_INT64_T;
}
template <>
MPI_Datatype mpi_type<std::uint64_t>() {
  return MPI_UINT64_T;
}

}  // namespace

struct Comm::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  WaitLimit limit;
  bool reproducible_sums = false;
  std::shared_ptr<mpi::SumMemory> sum_memory = std::make_shared<mpi::SumMemory>();
  int sums = 0;  // by reduce-scatter, begun so far

  explicit State(MPI_Comm owned) : comm(owned) {
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  }
  ~State() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Comm_free(&comm);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static std::unique_ptr<State> copy(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm, &made), "MPI_Comm_dup");
    return std::make_unique<State>(made);
  }

  // Finds the processes of this node's other ranks: one that is stopped excuses waits. Collective.
  void know_node() {
    if (size == 1) return;
    const mpi::ProcessName own = mpi::ProcessName::own();
    std::vector<mpi::ProcessName> all(static_cast<std::size_t>(size));
    check(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, comm), "MPI_Allgather");
    const auto node = std::make_shared<const mpi::NodeProcesses>(all, rank);
    if (node->count() > 0) limit.others_stopped = [node](bool late) { return node->any_stopped(late); };
  }

  // All verbs use MPI's non-blocking calls and our own wait, so that every wait can end.
  void barrier() const {
    mpi::Request request("MPI_Ibarrier");
    check(MPI_Ibarrier(comm, request.begun()), "MPI_Ibarrier");
    request.finish(limit);
  }
  template <typename T>
  mpi::Request start_reduce(std::span<T> part, MPI_Op operation) const {
    mpi::Request request("MPI_Iallreduce");
    check(MPI_Iallreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), mpi_type<T>(), operation, comm,
                         request.begun()),
          "MPI_Iallreduce");
    return request;
  }
  template <typename T>
  void reduce(std::span<T> values, MPI_Op operation) const {
    for_each_chunk(values, max_bytes / sizeof(T),
                   [&](std::span<T> part) { start_reduce(part, operation).finish(limit); });
  }
  template <typename T>
  void add(std::span<T> values) const {
    if (!reproducible_sums) return reduce(values, MPI_SUM);
    add_reproducibly<T>({values}, size, values);
  }
  template <typename T>
  void add_reproducibly(const std::vector<std::span<const T>>& summands, int all, std::span<T> total) const {
    for_each_chunk(total, max_fixed, [&](std::span<T> part) {
      const auto first = static_cast<std::size_t>(part.data() - total.data());
      std::vector<std::span<const T>> parts;
      for (const std::span<const T> summand : summands) parts.push_back(summand.subspan(first, part.size()));
      FixedPoint<T> fixed(std::move(parts), all);
      reduce(fixed.largest(), MPI_MAX);
      reduce(fixed.numbers(), MPI_SUM);
      fixed.write(part);
    });
  }
  // Tags above those of other messages; more sums are never under way.
  int next_tag() {
    constexpr int first_tag = 1024, at_once = 8192;
    return first_tag + 2 * (sums++ % at_once);
  }
  std::unique_ptr<mpi::ReduceScatterSum> start_reduce_scatter(std::span<float> values,
                                                              const ReduceScatterUpdate& update = {},
                                                              const PeerMemory* peers = nullptr) {
    const mpi::ReduceScatterSum::Ranks ranks{comm, rank, size};
    const int tag = next_tag();
    if (peers != nullptr) return std::make_unique<mpi::SharedSum>(ranks, tag, values, *peers, update);
    return std::make_unique<mpi::MessageSum>(ranks, tag, values, sum_memory, update);
  }
  bool adds_by_reduce_scatter() const { return mpi::adds_by_reduce_scatter(size, reproducible_sums); }
  template <typename T>
  T reduced(T value, MPI_Op operation) const {
    reduce(std::span(&value, 1), operation);
    return value;
  }
  template <typename T>
  void share(std::span<T> values, int root) const {
    for_each_chunk(values, max_bytes / sizeof(T), [&](std::span<T> part) {
      mpi::Request request("MPI_Ibcast");
      check(MPI_Ibcast(part.data(), static_cast<int>(part.size()), mpi_type<T>(), root, comm, request.begun()),
            "MPI_Ibcast");
      request.finish(limit);
    });
  }
};

struct PendingSum::State {
  struct Chunk {
    mpi::Request request;
    std::function<void()> done{};  // called once
    void end() {
      if (done) std::exchange(done, {})();
    }
  };
  std::vector<Chunk> parts;
  std::vector<std::unique_ptr<mpi::ReduceScatterSum>> reduce_scatters;
  WaitLimit limit;
};

PendingSum::PendingSum(std::unique_ptr<State> state) : state_(std::move(state)) {}
PendingSum::PendingSum(PendingSum&&) noexcept = default;
PendingSum& PendingSum::operator=(PendingSum&&) noexcept = default;
PendingSum::~PendingSum() = default;

bool PendingSum::test() {
  bool done = true;
  for (State::Chunk& part : state_->parts) {
    if (part.request.test())
      part.end();
    else
      done = false;
  }
  for (const auto& sum : state_->reduce_scatters) done = sum->test() && done;
  return done;
}

void PendingSum::finish() {
  for (State::Chunk& part : state_->parts) {
    part.request.finish(state_->limit);
    part.end();
  }
  for (const auto& sum : state_->reduce_scatters) sum->finish(state_->limit);
}

Comm::Comm(std::unique_ptr<State> state) : state_(std::move(state)) {}
Comm::Comm(Comm&&) noexcept = default;
Comm& Comm::operator=(Comm&&) noexcept = default;
Comm::~Comm() = default;

Comm Comm::world() {
  auto state = State::copy(MPI_COMM_WORLD);
  state->know_node();
  return Comm(std::move(state));
}
Comm Comm::self() { return Comm(State::copy(MPI_COMM_SELF)); }
Comm Comm::duplicate() const { return split(0, rank()); }
Comm Comm::split(int colour) const { return split(colour, rank()); }

// A barrier first: a rank that never arrives then causes an exception. Only one that arrives and then hangs does not.
Comm Comm::split(int colour, int order) const {
  state_->barrier();
  MPI_Comm made = MPI_COMM_NULL;
  {
    const mpi::Deadline deadline(state_->limit, "MPI_Comm_split");
    check(MPI_Comm_split(state_->comm, colour, order, &made), "MPI_Comm_split");
  }
  Comm part(std::make_unique<State>(made));
  part.state_->limit = state_->limit;
  part.state_->reproducible_sums = state_->reproducible_sums;
  return part;
}

int Comm::rank() const { return state_->rank; }
int Comm::size() const { return state_->size; }
void Comm::limit(double seconds) { state_->limit.seconds = seconds; }
double Comm::limit() const { return state_->limit.seconds; }
const WaitLimit& Comm::wait_limit() const { return state_->limit; }
void Comm::sum_reproducibly(bool on) { state_->reproducible_sums = on; }

void Comm::sum(std::span<float> values) { state_->add(values); }
void Comm::sum(std::span<double> values) { state_->add(values); }
void Comm::sum(std::span<std::int64_t> values) { state_->reduce(values, MPI_SUM); }
double Comm::sum(double value) {
  state_->add(std::span(&value, 1));
  return value;
}
void Comm::sum_summands(const std::vector<std::span<const float>>& summands, int all, std::span<float> total) {
  state_->add_reproducibly(summands, all, total);
}
void Comm::sum_summands(const std::vector<std::span<const double>>& summands, int all, std::span<double> total) {
  state_->add_reproducibly(summands, all, total);
}
double Comm::min(double value) { return state_->reduced(value, MPI_MIN); }
double Comm::max(double value) { return state_->reduced(value, MPI_MAX); }
bool Comm::any(bool value) { return state_->reduced(value ? 1 : 0, MPI_MAX) == 1; }

PendingSum Comm::start_sum(std::span<float> values) {
  auto pending = std::make_unique<PendingSum::State>();
  pending->limit = state_->limit;
  if (state_->reproducible_sums)
    state_->add(values);  // two dependent steps, so nothing can overlap
  else if (state_->adds_by_reduce_scatter() && values.size() >= mpi::long_sum)
    pending->reduce_scatters.push_back(state_->start_reduce_scatter(values));
  else
    for_each_chunk(values, max_bytes / sizeof(float),
                   [&](std::span<float> part) { pending->parts.push_back({state_->start_reduce(part, MPI_SUM)}); });
  return PendingSum(std::move(pending));
}

bool Comm::sums_by_reduce_scatter() const { return state_->adds_by_reduce_scatter(); }

PendingSum Comm::start_sum(std::span<float> values, const ReduceScatterUpdate& update, const PeerMemory* peers) {
  MRMF_CHECK(sums_by_reduce_scatter() && update.results.size() == values.size(),
             "an update goes with sums by reduce-scatter");
  auto pending = std::make_unique<PendingSum::State>();
  pending->limit = state_->limit;
  if (values.size() >= mpi::long_sum)
    pending->reduce_scatters.push_back(state_->start_reduce_scatter(values, update, peers));
  else
    pending->parts.push_back(
        {state_->start_reduce(values, MPI_SUM), [update, count = values.size()] { update.update(0, count); }});
  return PendingSum(std::move(pending));
}

PendingSum Comm::start_sum(CodedSum sum) {
  auto pending = std::make_unique<PendingSum::State>();
  pending->limit = state_->limit;
  const mpi::ReduceScatterSum::Ranks ranks{state_->comm, state_->rank, state_->size};
  pending->reduce_scatters.push_back(std::make_unique<mpi::CodedMessages>(ranks, state_->next_tag(), std::move(sum)));
  return PendingSum(std::move(pending));
}

void Comm::broadcast(std::span<float> values, int root) { state_->share(values, root); }
void Comm::broadcast(std::span<std::int64_t> values, int root) { state_->share(values, root); }

void Comm::broadcast(std::string& text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  state_->share(std::span(&length, 1), root);
  text.resize(static_cast<std::size_t>(length));
  state_->share(std::span(text.data(), text.size()), root);
}

std::vector<double> Comm::all_gather(double value) {
  std::vector<double> all(static_cast<std::size_t>(state_->size));
  mpi::Request request("MPI_Iallgather");
  check(MPI_Iallgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, state_->comm, request.begun()),
        "MPI_Iallgather");
  request.finish(state_->limit);
  return all;
}

void Comm::barrier() { state_->barrier(); }

bool Comm::all_equal(std::uint64_t value) {
  // One reduction gives both the largest and the smallest value (as the complement of the largest complement).
  std::uint64_t extremes[2] = {value, ~value};
  state_->reduce(std::span<std::uint64_t>(extremes), MPI_MAX);
  return extremes[0] == ~extremes[1];
}

const void* Comm::handle() const { return &state_->comm; }

namespace {

MPI_Comm raw(const Comm& comm) { return *static_cast<const MPI_Comm*>(comm.handle()); }

/// The start of each rank's piece, and the sum of all counts.
std::pair<std::vector<int>, std::size_t> starts_of(const std::vector<int>& counts) {
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

AllToAll::AllToAll(Comm& comm, std::vector<int> to)
    : comm_(&comm), to_{std::move(to)}, from_{std::vector<int>(static_cast<std::size_t>(comm.size()))} {
  MRMF_CHECK(to_.counts.size() == from_.counts.size(), "one count per rank is needed");
  mpi::Request request("MPI_Ialltoall");
  check(MPI_Ialltoall(to_.counts.data(), 1, MPI_INT, from_.counts.data(), 1, MPI_INT, raw(comm), request.begun()),
        "MPI_Ialltoall");
  request.finish(comm.wait_limit());
  std::tie(to_.first, to_.all) = starts_of(to_.counts);
  std::tie(from_.first, from_.all) = starts_of(from_.counts);
}

void AllToAll::send(std::span<const float> values, std::span<float> arrived) const {
  move(values, to_, arrived, from_);
}

void AllToAll::answer(std::span<const float> answers, std::span<float> arrived) const {
  move(answers, from_, arrived, to_);
}

void AllToAll::move(std::span<const float> from, const Pieces& there, std::span<float> to, const Pieces& here) const {
  MRMF_CHECK(from.size() == there.all && to.size() == here.all, "other lengths than were told");
  mpi::Request request("MPI_Ialltoallv");
  check(MPI_Ialltoallv(from.data(), there.counts.data(), there.first.data(), MPI_FLOAT, to.data(), here.counts.data(),
                       here.first.data(), MPI_FLOAT, raw(*comm_), request.begun()),
        "MPI_Ialltoallv");
  request.finish(comm_->wait_limit());
}

// An error of one rank becomes an error of all.

namespace {

struct Failure {
  std::int64_t exit_code = 0;  // 0: none
  std::string what;
};

Failure attempt(const std::function<void()>& action) {
  try {
    action();
    return {};
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {FaultError::kExitCode, "out of memory; use more ranks, more nodes or a coarser resolution"};
  } catch (const std::exception& error) {
    return {FaultError::kExitCode, error.what()};
  }
}

[[noreturn]] void raise(const Failure& failure) {
  switch (failure.exit_code) {
    case ConfigError::kExitCode: throw ConfigError(failure.what);
    case DataError::kExitCode: throw DataError(failure.what);
    default: throw FaultError(failure.what);
  }
}

}  // namespace

void collective_try(Comm& comm, const std::function<void()>& action) {
  Failure failure = attempt(action);
  const bool failed = failure.exit_code != 0;
  const auto failures = static_cast<int>(comm.sum(failed ? 1.0 : 0.0));
  if (failures == 0) return;
  const auto first = static_cast<int>(comm.min(failed ? comm.rank() : comm.size()));
  comm.broadcast(std::span(&failure.exit_code, 1), first);
  comm.broadcast(failure.what, first);
  // What the root alone looked at is everybody's matter.
  if (failures < comm.size() && first > 0) failure.what = "rank " + std::to_string(first) + ": " + failure.what;
  raise(failure);
}

void collective_try_on_root(Comm& comm, const std::function<void()>& action) {
  Comm unlimited = comm.duplicate();
  unlimited.limit(0);
  collective_try(unlimited, [&] {
    if (unlimited.root()) action();
  });
}

void collective_try_each(Comm& comm, Index first, Index count, const std::function<void(Index)>& action) {
  Index at = first;
  Failure failure = attempt([&] {
    for (; at < first + count; ++at) action(at);
  });
  const double none = std::numeric_limits<double>::max(), own = static_cast<double>(at);
  const bool failed = failure.exit_code != 0;
  const double lowest = comm.min(failed ? own : none);
  if (lowest == none) return;
  const auto rank = static_cast<int>(comm.min(failed && own == lowest ? comm.rank() : comm.size()));
  comm.broadcast(std::span(&failure.exit_code, 1), rank);
  comm.broadcast(failure.what, rank);
  raise(failure);
}

struct SharedCounter::State {
  bool alone = true;
  std::int64_t own = 0;  // the counter of one rank alone
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

namespace {

// Waits for at most a second, without spinning.
bool done_soon(PendingSum& sum) {
  for (const Timer timer; timer.seconds() < 1;) {
    if (sum.test()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

}  // namespace

Rendezvous::Rendezvous(const Comm& world) : world_(world.duplicate()) {
  world_.limit(0);
  world_.sum_reproducibly(false);  // a sum in fixed point could not run beside other calls
}

double Rendezvous::sum_when_all_arrive(std::span<float> values, Comm& team) {
  const Timer timer;
  for (PendingSum sum = world_.start_sum(values); team.any(!done_soon(sum));) {
  }
  return timer.seconds();
}

}  // namespace mrmf
