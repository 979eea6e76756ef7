// NCCL between threads and between processes: ranks that differ, that are lost, that ask for too much too early.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <csignal>
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

TEST_CASE("a sum goes on although its host is busy elsewhere") {
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
  const pid_t peer = in_child([&] {
    cudaSetDevice(1);
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, 2, id, 1);
    for (;;) pause();
    return 0;
  });
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
