// NCCL between threads and between processes: ranks that differ, that are lost, that ask for too much too early.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <thread>

#include "tests/emulated/test_support.hpp"

namespace {

using namespace std::chrono_literals;

ncclUniqueId new_id() {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

/// Runs `body(rank)` in one thread per rank, each with its own device.
void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([rank, &body] {
      cudaSetDevice(rank);
      body(rank);
    });
}

/// A process that is rank 1 of two, and calls nothing.
pid_t idle_peer(const ncclUniqueId& id) {
  return in_child([&] {
    cudaSetDevice(1);
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, 2, id, 1);
    for (;;) pause();
    return 0;
  });
}

/// One rank's communicator and stream. NCCL's errors are CHECKed: doctest's REQUIRE throws, which threads must not.
struct Rank {
  Rank(int ranks, const ncclUniqueId& id, int rank, bool blocking = true) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    CHECK(ncclCommInitRankConfig(&comm, ranks, id, rank, &config) == (blocking ? ncclSuccess : ncclInProgress));
  }
  ~Rank() { CHECK(ncclCommDestroy(comm) == ncclSuccess); }
  ncclResult_t sum(const DeviceFloats& values, std::size_t count) const {
    return ncclAllReduce(values.get(), values.get(), count, ncclFloat32, ncclSum, comm, stream);
  }
  ncclResult_t async() const {
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm, &error);
    return error;
  }
  ncclComm_t comm = nullptr;
  TestStream stream;
};

bool becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i, std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

}  // namespace

TEST_CASE("a sum continues although its host is busy elsewhere") {
  const ncclUniqueId id = new_id();
  constexpr std::size_t kCount = 100001;  // two chunks
  std::atomic<bool> first_done = false;
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    DeviceFloats values(std::vector<float>(kCount, static_cast<float>(1 + r)));
    CHECK(rank.sum(values, kCount) == ncclSuccess);
    if (r == 0) {
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
      CHECK(values.values() == std::vector<float>(kCount, 3.0f));
      first_done = true;
    } else {
      CHECK(becomes([&] { return first_done.load(); }));  // without ever asking the device
    }
  });
}

TEST_CASE("two ranks on one device are refused") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    cudaSetDevice(0);
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRank(&comm, 2, id, r) == ncclInvalidUsage);
    CHECK(std::string(ncclGetLastError(comm)).find("Duplicate GPU detected") == 0);
    ncclCommDestroy(comm);
  });
}

TEST_CASE("different counts are an error with a text, not a hang") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    DeviceFloats values(8);
    CHECK(rank.sum(values, r ? 7 : 8) == ncclSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    CHECK(rank.async() == ncclInvalidUsage);
    CHECK(std::string(ncclGetLastError(rank.comm)).find("of 7 elements") != std::string::npos);
  });
}

TEST_CASE("a peer whose process ends is a remote error; its collective waits until the abort") {
  const ncclUniqueId id = new_id();
  const pid_t peer = idle_peer(id);
  cudaSetDevice(0);
  Rank rank(2, id, 0);
  DeviceFloats value(std::vector<float>{1.0f});
  CHECK(rank.sum(value, 1) == ncclSuccess);
  CHECK(rank.async() == ncclSuccess);
  kill(peer, SIGKILL);
  CHECK(becomes([&] { return rank.async() == ncclRemoteError; }));
  CHECK(cudaStreamQuery(rank.stream) == cudaErrorNotReady);
  cudaGetLastError();
  CHECK(std::string(ncclGetLastError(rank.comm)).find("rank 1 has ended") != std::string::npos);
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.comm = nullptr;
  CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
  status_of(peer);
}

TEST_CASE("a non-blocking communicator reports progress, and its first collective comes after the poll") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r, false);
    const auto ready = [&] { return rank.async() == ncclSuccess; };
    CHECK(becomes(ready));
    DeviceFloats value(std::vector<float>{1.0f});
    CHECK(rank.sum(value, 1) == ncclInProgress);
    CHECK(cudaStreamQuery(rank.stream) == cudaSuccess);  // nothing there yet
    CHECK(rank.sum(value, 1) == ncclInvalidArgument);    // the first call is still in progress
    CHECK(becomes(ready));
    CHECK(rank.sum(value, 1) == ncclSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    CHECK(value.values()[0] == 4.0f);
  });
}

namespace {

/// Sends `out` to the other of two ranks, and receives as much.
ncclResult_t swap(const Rank& rank, int other, const DeviceFloats& out, const DeviceFloats& in, std::size_t count) {
  ncclGroupStart();
  CHECK(ncclRecv(in.get(), count, ncclFloat32, other, rank.comm, rank.stream) == ncclSuccess);
  CHECK(ncclSend(out.get(), count, ncclFloat32, other, rank.comm, rank.stream) == ncclSuccess);
  return ncclGroupEnd();
}

constexpr std::size_t kLong = 100001;  // floats: several chunks of a message

}  // namespace

TEST_CASE("messages of a group cross, and continue although a host is busy elsewhere") {
  const ncclUniqueId id = new_id();
  std::atomic<bool> first_done = false;
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    const DeviceFloats out(std::vector<float>(kLong, static_cast<float>(1 + r))), in(std::vector<float>(kLong, 7.0f));
    CHECK(swap(rank, 1 - r, out, in, kLong) == ncclSuccess);
    if (r == 0) {
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
      CHECK(in.values() == std::vector<float>(kLong, 2.0f));
      first_done = true;
    } else {
      CHECK(becomes([&] { return first_done.load(); }));  // without ever asking the device
    }
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
  });
}

TEST_CASE("messages between several ranks, of lengths of their own, beside a sum") {
  const ncclUniqueId id = new_id();
  on_ranks(3, [&](int r) {
    Rank rank(3, id, r);
    const auto length = [](int from, int to) { return static_cast<std::size_t>(40000 * (3 * from + to)); };
    std::deque<DeviceFloats> in, out;
    for (int other = 0; other < 3; ++other) {
      in.emplace_back(std::max<std::size_t>(1, length(other, r)));
      out.emplace_back(
          std::vector<float>(std::max<std::size_t>(1, length(r, other)), static_cast<float>(10 * r + other)));
    }
    const DeviceFloats sum(std::vector<float>{1.0f});
    ncclGroupStart();
    for (int other = 0; other < 3; ++other) {
      const auto o = static_cast<std::size_t>(other);
      if (other == r) continue;
      if (const std::size_t n = length(r, other); n > 0)
        CHECK(ncclSend(out[o].get(), n, ncclFloat32, other, rank.comm, rank.stream) == ncclSuccess);
      if (const std::size_t n = length(other, r); n > 0)
        CHECK(ncclRecv(in[o].get(), n, ncclFloat32, other, rank.comm, rank.stream) == ncclSuccess);
    }
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(rank.sum(sum, 1) == ncclSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    CHECK(sum.values()[0] == 3.0f);
    for (int other = 0; other < 3; ++other)
      if (other != r && length(other, r) > 0)
        CHECK(in[static_cast<std::size_t>(other)].values() ==
              std::vector<float>(length(other, r), static_cast<float>(10 * other + r)));
  });
}

TEST_CASE("long messages both ways without a group wait for each other for ever") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    const DeviceFloats out(kLong), in(kLong);
    CHECK(ncclSend(out.get(), kLong, ncclFloat32, 1 - r, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclRecv(in.get(), kLong, ncclFloat32, 1 - r, rank.comm, rank.stream) == ncclSuccess);
    for (int i = 0; i < 50; ++i, std::this_thread::sleep_for(1ms))
      CHECK(cudaStreamQuery(rank.stream) == cudaErrorNotReady);
    cudaGetLastError();
    CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
    rank.comm = nullptr;
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
  });
}

TEST_CASE("recorded messages are sent anew by every launch") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    const DeviceFloats out(std::vector<float>(kLong, static_cast<float>(1 + r))), in(kLong);
    CHECK(swap(rank, 1 - r, out, in, kLong) == ncclSuccess);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(swap(rank, 1 - r, in, out, kLong) == ncclSuccess);  // back again
    CHECK(cudaStreamEndCapture(rank.stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    for (const float value : {3.0f, 5.0f}) {
      const std::vector<float> values(kLong, value + static_cast<float>(r));
      CHECK(cudaMemcpyAsync(in.get(), values.data(), kLong * sizeof(float), cudaMemcpyHostToDevice, rank.stream) ==
            cudaSuccess);
      CHECK(cudaGraphLaunch(exec, rank.stream) == cudaSuccess);
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
      CHECK(out.values() == std::vector<float>(kLong, value + static_cast<float>(1 - r)));
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
}

TEST_CASE("messages of different lengths, to nobody, or from beyond their memory are errors") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    const DeviceFloats values(8);
    CHECK(ncclSend(values.get(), 8, ncclFloat32, 2, rank.comm, rank.stream) == ncclInvalidArgument);
    CHECK(ncclSend(values.get(), 9, ncclFloat32, 1 - r, rank.comm, rank.stream) ==
          ncclInvalidArgument);  // beyond its end
    if (r == 0) {
      CHECK(ncclSend(values.get(), 7, ncclFloat32, 1, rank.comm, rank.stream) == ncclSuccess);
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    } else {
      CHECK(ncclRecv(values.get(), 8, ncclFloat32, 0, rank.comm, rank.stream) == ncclSuccess);
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
      CHECK(rank.async() == ncclInvalidUsage);
      CHECK(std::string(ncclGetLastError(rank.comm)).find("expects 32 bytes from rank 0, which sent 28") !=
            std::string::npos);
    }
  });
}

TEST_CASE("a non-blocking communicator's first messages come after the poll, after its first sum, too") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r, false);
    const auto ready = [&] { return rank.async() == ncclSuccess; };
    CHECK(becomes(ready));
    const DeviceFloats value(std::vector<float>{1.0f}), in(1);
    CHECK(rank.sum(value, 1) == ncclInProgress);
    CHECK(becomes(ready));
    CHECK(swap(rank, 1 - r, value, in, 1) == ncclInProgress);
    CHECK(becomes(ready));
    CHECK(swap(rank, 1 - r, value, in, 1) == ncclSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    CHECK(in.values()[0] == 2.0f);
  });
}

TEST_CASE("a message from a process that ends is a remote error, and waits until the abort") {
  const ncclUniqueId id = new_id();
  const pid_t peer = idle_peer(id);
  cudaSetDevice(0);
  Rank rank(2, id, 0);
  const DeviceFloats value(1);
  CHECK(ncclRecv(value.get(), 1, ncclFloat32, 1, rank.comm, rank.stream) == ncclSuccess);
  kill(peer, SIGKILL);
  CHECK(becomes([&] { return rank.async() == ncclRemoteError; }));
  CHECK(cudaStreamQuery(rank.stream) == cudaErrorNotReady);
  cudaGetLastError();
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.comm = nullptr;
  CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
  status_of(peer);
}
