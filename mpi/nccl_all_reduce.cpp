// Sums over ranks by NCCL, on a stream of their own beside the computation (paper section 2.2: synchronous SGD).
//
// Two things must never happen: a rank waits forever for one that has died, or ranks call collectives in different
// orders. So the communicator is non-blocking, and every wait for the device polls it (Waiter). All its calls go to one
// stream, in the order in which the program makes them.
#include <nccl.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// NCCL reads these when a communicator is made. The user's settings take precedence.
void set_environment(const Settings& settings) {
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 0); };
  // Prevents "Duplicate GPU detected". NCCL reads it once per process, which may have another rank in a later
  // communicator.
  if (settings.share_device) set("NCCL_HOSTID", fmt::format("mrmf-process-{}", getpid()));
  if (!settings.deterministic) return;
  // Fixes the order of additions: the switch-based algorithms (NVLS, SHARP) may use another one in every call.
  set("NCCL_ALGO", "Ring");
  set("NCCL_PROTO", "Simple");
  set("NCCL_NVLS_ENABLE", "0");
  set("NCCL_COLLNET_ENABLE", "0");
}

// Within a minor version, an older patch will do. How an older minor version reads NCCL's configuration is unknown.
void require_version() {
  int version = 0;
  MRMF_NCCL(ncclGetVersion(&version));
  const auto text = [](int v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); };
  if (version / 100 < NCCL_VERSION_CODE / 100)
    throw ConfigError(fmt::format("found NCCL {}, and this build needs at least {}; put it first in LD_LIBRARY_PATH",
                                  text(version), text(NCCL_VERSION_CODE)));
}

class NcclSum final : public AllReduce {
 public:
  NcclSum(Device& device, const Peers& peers)
      : device_(device), rank_(peers.rank), stream_(most_urgent()), stamps_(sizeof(StampBlock)) {
    require_version();
    set_environment(device.settings());
    MRMF_CUDA(cudaMemsetAsync(stamps_.get(), 0, stamps_.bytes(), device.stream()));
    connect(peers);
    device.waiter().watch([this](double waited) { check(waited); });
  }
  NcclSum(const NcclSum&) = delete;
  NcclSum& operator=(const NcclSum&) = delete;
  ~NcclSum() override {
    device_.waiter().stop_watching();
    device_.recorder().forget();  // records hold the communicator
    if (comm_ == nullptr) return;
    if (ncclCommFinalize(comm_) == ncclSuccess || finished())
      ncclCommDestroy(comm_);
    else
      end_sums();
  }

  void sum(std::span<double> values) override {
    if (values.empty()) return;
    fork();
    add(values.data(), values.size(), ncclDouble);
    join();
  }
  void start(Span part) override {
    if (part.empty()) return;
    fork();
    add(part.data(), part.size(), ncclFloat);
  }
  void finish() override { join(); }

  SumTime take_time() override {
    StampBlock stamps;
    device_.synchronise();  // by polling: the copy would block inside CUDA
    MRMF_CUDA(cudaMemcpyAsync(&stamps, stamps_.get(), sizeof(stamps), cudaMemcpyDeviceToHost, device_.stream()));
    device_.synchronise();
    MRMF_CUDA(cudaMemsetAsync(stamps_.get(), 0, stamps_.bytes(), device_.stream()));
    return {.waited = 1e-9 * static_cast<double>(stamps.total)};
  }

 private:
  static Stream most_urgent() {
    int least = 0, most = 0;
    MRMF_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
    return Stream(most);
  }

  void connect(const Peers& peers) {
    ncclUniqueId id{};
    if (peers.rank == 0) MRMF_NCCL(ncclGetUniqueId(&id));
    peers.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, peers.size, id, peers.rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) fail(result, "connecting the ranks");
    settle("connecting the ranks");
  }

  // The sum begins after all computation queued so far...
  void fork() {
    ready_.record(device_.stream());
    ready_.wait(stream_.get());
  }
  // ...and computation goes on after all sums.
  void join() {
    stamp_begin(device_.stream(), stamps_.get<StampBlock>());
    done_.record(stream_.get());
    done_.wait(device_.stream());
    stamp_end(device_.stream(), stamps_.get<StampBlock>());
  }

  void add(void* values, std::size_t count, ncclDataType_t type) {
    const ncclResult_t result = ncclAllReduce(values, values, count, type, ncclSum, comm_, stream_.get());
    if (result == ncclInProgress)
      settle("a sum over the ranks");
    else if (result != ncclSuccess)
      fail(result, "a sum over the ranks");
  }

  // Waits until the communicator has accepted the last call.
  void settle(const char* what) {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
      if (result != ncclSuccess) fail(result, what);
      if (state == ncclSuccess) return;
      if (state != ncclInProgress) fail(state, what);
      if (since(begin) > device_.settings().timeout) fail_late(what, since(begin));
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  // Called while the host waits for the device.
  void check(double waited) {
    if (comm_ == nullptr) return;  // already aborted
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
      fail(state, "a sum over the ranks");
    if (waited > device_.settings().timeout) fail_late("a sum over the ranks", waited);
  }

  [[noreturn]] void fail(ncclResult_t result, const char* what) {
    const std::string text = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm_);
    abort();
    leave(fmt::format(
        "rank {}: NCCL failed in {}: {}; look for the first rank that ended (NCCL_DEBUG=INFO "
        "says more){}",
        rank_, what, text, result == ncclInvalidUsage ? "; two ranks on one GPU need run.ranks_share_gpu" : ""));
  }
  [[noreturn]] void fail_late(const char* what, double seconds) {
    abort();
    leave(
        fmt::format("rank {}: {} has not ended within {:.0f} s; another rank hangs or has died", rank_, what, seconds));
  }

  bool finished() {
    const Clock::time_point begin = Clock::now();
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress && since(begin) < 5)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return state == ncclSuccess;
  }

  // Aborts at once: an endless sum would hold on to the memory that the unwinding frees. ncclCommAbort can itself hang
  // when a peer is gone, so it gets its own thread; the process ends anyway.
  void abort() {
    if (comm_ == nullptr) return;
    std::thread([comm = std::exchange(comm_, nullptr)] { ncclCommAbort(comm); }).detach();
  }

  // Call after abort(). Throws; the unwinding frees memory and so waits for the device. If the device does not become
  // idle in time, that wait would never end: then terminate the program, with the message from main's handler.
  [[noreturn]] void leave(const std::string& message) try { throw FaultError(message); } catch (const FaultError&) {
    const Clock::time_point begin = Clock::now();
    while (is_busy(device_.stream()) || is_busy(stream_.get())) {
      if (since(begin) > patience) std::terminate();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw;
  }
  void end_sums() try {
    abort();
    leave(fmt::format("rank {}: a sum over the ranks does not end although it was given up", rank_));
  } catch (const FaultError&) {  // the sum has ended
  }
  static bool is_busy(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }

  static constexpr double patience = 5;  // seconds in which the kernels of an aborted communicator must end

  Device& device_;
  int rank_;
  Stream stream_;
  Event ready_, done_;
  DeviceBuffer stamps_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<AllReduce> make_nccl_all_reduce(Device& device, const Peers& peers) {
  return std::make_unique<NcclSum>(device, peers);
}

}  // namespace mrmf::cuda
