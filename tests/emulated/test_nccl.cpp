// NCCL between threads and between processes.
#include <nccl.h>

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

/// One rank's communicator and stream. Errors are CHECKed: doctest's REQUIRE throws, which threads must not.
struct Rank {
  Rank(int ranks, const ncclUniqueId& id, int rank) {
    CHECK(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~Rank() {
    ncclCommDestroy(comm);
    cudaStreamDestroy(stream);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ncclResult_t async() const {
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm, &error);
    return error;
  }
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

bool becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i, std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

}  // namespace

TEST_CASE("all-reduce, broadcast and all-gather, over more than one chunk") {
  const ncclUniqueId id = new_id();
  constexpr std::size_t kCount = 100001;  // floats: two chunks
  on_ranks(3, [&](int r) {
    Rank rank(3, id, r);
    std::vector<float> mine(kCount);
    for (std::size_t i = 0; i < kCount; ++i) mine[i] = static_cast<float>(i) + 0.25f * static_cast<float>(r);
    DeviceFloats sum(mine), from_one(mine), all(3 * kCount), largest(mine);
    CHECK(ncclAllReduce(sum.get(), sum.get(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclBroadcast(from_one.get(), from_one.get(), kCount, ncclFloat32, 1, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclAllGather(largest.get(), all.get(), kCount, ncclFloat32, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(ncclAllReduce(largest.get(), largest.get(), kCount, ncclFloat32, ncclMax, rank.comm, rank.stream) ==
          ncclSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    const std::size_t at = 77777;
    const auto base = static_cast<float>(at);
    CHECK(sum.values()[at] == (base + (base + 0.25f)) + (base + 0.5f));
    CHECK(from_one.values()[at] == base + 0.25f);
    CHECK(largest.values()[at] == base + 0.5f);
    CHECK(all.values()[2 * kCount + at] == base + 0.5f);
    CHECK(rank.async() == ncclSuccess);
  });
}

TEST_CASE("a collective goes on although its host is busy elsewhere") {
  const ncclUniqueId id = new_id();
  std::atomic<bool> first_done = false;
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    DeviceFloats value(std::vector<float>{1.0f});
    CHECK(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess);
    if (r == 0) {
      CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
      first_done = true;
    } else {
      CHECK(becomes([&] { return first_done.load(); }));  // without ever asking the device
    }
  });
}

TEST_CASE("collectives are captured and replayed") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    DeviceFloats value(std::vector<float>{1.0f});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess);
    CHECK(cudaStreamEndCapture(rank.stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, rank.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(rank.stream) == cudaSuccess);
    CHECK(value.values()[0] == 8.0f);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
}

TEST_CASE("two ranks on one device are refused unless NCCL_HOSTID tells them apart") {
  for (const bool apart : {false, true}) {
    const ncclUniqueId id = new_id();
    const auto rank_in_child = [&](int r) {
      return in_child([&, r] {
        if (apart) setenv("NCCL_HOSTID", r ? "one" : "zero", 1);
        cudaSetDevice(0);
        ncclComm_t comm = nullptr;
        const ncclResult_t result = ncclCommInitRank(&comm, 2, id, r);
        if (apart) return result == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
        const bool named = std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected") == 0;
        return result == ncclInvalidUsage && named ? 0 : 1;
      });
    };
    const pid_t first = rank_in_child(0), second = rank_in_child(1);
    CHECK(status_of(first) == 0);
    CHECK(status_of(second) == 0);
  }
}

TEST_CASE("different counts are an error with a text, not a hang") {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    Rank rank(2, id, r);
    DeviceFloats value(8);
    const std::size_t count = r ? 7 : 8;
    CHECK(ncclAllReduce(value.get(), value.get(), count, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess);
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
  CHECK(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess);
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
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, 2, id, r, &config) == ncclInProgress);
    const auto ready = [&] {
      ncclResult_t state = ncclInProgress;
      ncclCommGetAsyncError(comm, &state);
      return state == ncclSuccess;
    };
    CHECK(becomes(ready));
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    DeviceFloats value(std::vector<float>{1.0f});
    const auto reduce = [&] { return ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, comm, stream); };
    CHECK(reduce() == ncclInProgress);
    CHECK(cudaStreamQuery(stream) == cudaSuccess);  // nothing there yet
    CHECK(reduce() == ncclInvalidArgument);         // the first call is still in progress
    CHECK(becomes(ready));
    CHECK(reduce() == ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(value.values()[0] == 4.0f);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    cudaStreamDestroy(stream);
  });
}

TEST_CASE("a split gives each color a communicator, ordered by key") {
  const ncclUniqueId id = new_id();
  on_ranks(3, [&](int r) {
    Rank rank(3, id, r);
    ncclComm_t part = nullptr;
    CHECK(ncclCommSplit(rank.comm, r == 1 ? NCCL_SPLIT_NOCOLOR : 5, -r, &part, nullptr) == ncclSuccess);
    CHECK((part == nullptr) == (r == 1));
    if (!part) return;
    int place = -1, count = 0;
    CHECK(ncclCommUserRank(part, &place) == ncclSuccess);
    CHECK(ncclCommCount(part, &count) == ncclSuccess);
    CHECK(count == 2);
    CHECK(place == (r == 2 ? 0 : 1));
    CHECK(ncclCommDestroy(part) == ncclSuccess);
  });
}
