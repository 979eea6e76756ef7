#include "mpi/comm.hpp"

#include <mpi.h>

#include <cstdlib>
#include <utility>

#include "mpi/chunks.hpp"

namespace mrmf {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 30;

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

// The defaults are the caller's place (std::source_location, which clang-tidy 14 cannot read, is made of these).
void check(int code, const char* function, const char* caller = __builtin_FUNCTION(), int line = __builtin_LINE()) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0, rank = -1;
  MPI_Error_string(code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw FaultError(std::string(function) + " failed on rank " + std::to_string(rank) + ": " + text + " (" + caller +
                   ", line " + std::to_string(line) + ")");
}

template <typename T>
void reduce(MPI_Comm comm, std::span<T> values, MPI_Op operation) {
  for_each_chunk(values, max_bytes / sizeof(T), [&](std::span<T> part) {
    check(MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), mpi_type<T>(), operation, comm),
          "MPI_Allreduce");
  });
}

template <typename T>
T reduced(MPI_Comm comm, T value, MPI_Op operation) {
  reduce(comm, std::span(&value, 1), operation);
  return value;
}

template <typename T>
void share(MPI_Comm comm, std::span<T> values, int root) {
  for_each_chunk(values, max_bytes / sizeof(T), [&](std::span<T> part) {
    check(MPI_Bcast(part.data(), static_cast<int>(part.size()), mpi_type<T>(), root, comm), "MPI_Bcast");
  });
}

}  // namespace

struct Comm::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;

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
};

Comm::Comm(std::unique_ptr<State> state) : state_(std::move(state)) {}
Comm::Comm(Comm&&) noexcept = default;
Comm& Comm::operator=(Comm&&) noexcept = default;
Comm::~Comm() = default;

Comm Comm::world() { return Comm(State::copy(MPI_COMM_WORLD)); }
Comm Comm::self() { return Comm(State::copy(MPI_COMM_SELF)); }
Comm Comm::duplicate() const { return Comm(State::copy(state_->comm)); }

Comm Comm::split(int colour) {
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_split(state_->comm, colour, state_->rank, &made), "MPI_Comm_split");
  return Comm(std::make_unique<State>(made));
}

int Comm::rank() const { return state_->rank; }
int Comm::size() const { return state_->size; }

void Comm::sum(std::span<float> values) { reduce(state_->comm, values, MPI_SUM); }
void Comm::sum(std::span<double> values) { reduce(state_->comm, values, MPI_SUM); }
void Comm::sum(std::span<std::int64_t> values) { reduce(state_->comm, values, MPI_SUM); }
double Comm::sum(double value) { return reduced(state_->comm, value, MPI_SUM); }
double Comm::min(double value) { return reduced(state_->comm, value, MPI_MIN); }
double Comm::max(double value) { return reduced(state_->comm, value, MPI_MAX); }
bool Comm::any(bool value) { return reduced(state_->comm, value ? 1 : 0, MPI_MAX) == 1; }

void Comm::broadcast(std::span<float> values, int root) { share(state_->comm, values, root); }
void Comm::broadcast(std::span<std::int64_t> values, int root) { share(state_->comm, values, root); }

void Comm::broadcast(std::string& text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  share(state_->comm, std::span(&length, 1), root);
  text.resize(static_cast<std::size_t>(length));
  share(state_->comm, std::span(text.data(), text.size()), root);
}

std::vector<double> Comm::gather(double value) {
  std::vector<double> all(static_cast<std::size_t>(state_->size));
  check(MPI_Allgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, state_->comm), "MPI_Allgather");
  return all;
}

void Comm::barrier() { check(MPI_Barrier(state_->comm), "MPI_Barrier"); }

bool Comm::agree(std::uint64_t value) {
  // The largest value and the smallest (as the complement of the largest complement) in one reduction.
  std::uint64_t extremes[2] = {value, ~value};
  reduce(state_->comm, std::span<std::uint64_t>(extremes), MPI_MAX);
  return extremes[0] == ~extremes[1];
}

void Comm::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not return
}

const void* Comm::handle() const { return &state_->comm; }

}  // namespace mrmf
