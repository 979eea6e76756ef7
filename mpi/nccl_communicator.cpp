#include "mpi/nccl_communicator.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cuda {
namespace {

constexpr double abort_seconds = 5;  // seconds in which the kernels of an aborted communicator must end

Stream most_urgent() {
  int least = 0, most = 0;
  MRMF_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
  return Stream(most);
}

bool is_busy(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }

}  // namespace

NcclStream::NcclStream(Device& device) : device_(device), stream_(most_urgent()) {}

void NcclStream::fork() {
  ready_.record(device_.stream());
  ready_.wait(stream_.get());
}

void NcclStream::check(const WaitTimer& timer) {
  for (NcclCommunicator* const each : communicators_) each->check();
  if (timer.over())
    communicators_.front()->fail_late("a sum over the ranks, or a message between them,", timer.counted());
}

// The unwinding frees memory and so waits for the device. If the device does not become idle in time, that wait would
// never end: then terminate the program, with the message from main's handler.
void NcclStream::leave(const std::string& message) {
  for (NcclCommunicator* const each : communicators_) each->abort();
  try {
    throw FaultError(message);
  } catch (const FaultError&) {
    const Timer timer;
    while (is_busy(device_.stream()) || is_busy(stream_.get())) {
      if (timer.seconds() > abort_seconds) std::terminate();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw;
  }
}

NcclStream::Listed::Listed(NcclStream& stream, NcclCommunicator& communicator)
    : stream_(stream), communicator_(communicator) {
  if (stream_.communicators_.empty())
    stream_.device_.waiter().watch(stream_.device_.settings().limit,
                                   [&stream](const WaitTimer& timer) { stream.check(timer); });
  stream_.communicators_.push_back(&communicator);
}

NcclStream::Listed::~Listed() {
  std::erase(stream_.communicators_, &communicator_);
  if (stream_.communicators_.empty()) stream_.device_.waiter().stop_watching();
}

NcclCommunicator::NcclCommunicator(NcclStream& stream, const Peers& peers)
    : stream_(stream), rank_(peers.ranks.at(static_cast<std::size_t>(peers.rank))), listed_(stream, *this) {
  connect(peers);
}

NcclCommunicator::~NcclCommunicator() {
  stream_.device().step_graphs().drop_captures();  // captures hold the communicator
  if (comm_ == nullptr) return;
  if (ncclCommFinalize(comm_) == ncclSuccess || finished()) {
    ncclCommDestroy(comm_);
    return;
  }
  try {
    stream_.leave(fmt::format("rank {}: a sum over the ranks does not end although it was given up", rank_));
  } catch (const FaultError&) {  // it has ended
  }
}

void NcclCommunicator::connect(const Peers& peers) {
  ncclUniqueId id{};
  if (peers.rank == 0) MRMF_NCCL(ncclGetUniqueId(&id));
  peers.broadcast(std::as_writable_bytes(std::span(&id, 1)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&comm_, peers.size, id, peers.rank, &config);
  if (result != ncclSuccess && result != ncclInProgress) fail(result, "connecting the ranks");
  wait_until_accepted("connecting the ranks");
}

void NcclCommunicator::queue(const char* what, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call) {
  stream_.fork();
  const ncclResult_t result = call(comm_, stream_.get());
  if (result == ncclInProgress)
    wait_until_accepted(what);
  else if (result != ncclSuccess)
    fail(result, what);
}

// Waits until NCCL has accepted the last call.
void NcclCommunicator::wait_until_accepted(const char* what) {
  for (WaitTimer timer(stream_.device().settings().limit);; timer.update()) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
    if (result != ncclSuccess) fail(result, what);
    if (state == ncclSuccess) return;
    if (state != ncclInProgress) fail(state, what);
    if (timer.over()) fail_late(what, timer.counted());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclCommunicator::check() {
  if (comm_ == nullptr) return;  // already aborted
  ncclResult_t state = ncclSuccess;
  if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
    fail(state, "a sum over the ranks or a message between them");
}

void NcclCommunicator::fail(ncclResult_t result, const char* what) {
  const std::string text = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm_);
  stream_.leave(fmt::format(
      "rank {}: NCCL failed in {}: {}; look for the first rank that ended (NCCL_DEBUG=INFO "
      "says more){}",
      rank_, what, text, result == ncclInvalidUsage ? "; two ranks on one GPU need run.ranks_share_gpu" : ""));
}

void NcclCommunicator::fail_late(const char* what, double seconds) {
  stream_.leave(
      fmt::format("rank {}: {} has not ended within {:.0f} s; another rank hangs or has died", rank_, what, seconds));
}

bool NcclCommunicator::finished() {
  const Timer timer;
  ncclResult_t state = ncclInProgress;
  while (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress &&
         timer.seconds() < abort_seconds)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return state == ncclSuccess;
}

// At once: endless work would hold on to the memory that the unwinding frees. ncclCommAbort can itself hang when a peer
// is gone, so it gets its own thread; the process ends anyway.
void NcclCommunicator::abort() {
  if (comm_ == nullptr) return;
  std::thread([comm = std::exchange(comm_, nullptr)] { ncclCommAbort(comm); }).detach();
}

ncclResult_t nccl_group(const std::function<void(const NcclAdd&)>& calls) {
  ncclResult_t result = ncclGroupStart();
  const NcclAdd add = [&](ncclResult_t each) {
    if (result == ncclSuccess || result == ncclInProgress) result = each;
  };
  calls(add);
  add(ncclGroupEnd());  // also after an error
  return result;
}

NcclWait::NcclWait(NcclStream& stream) : stream_(stream), stamps_(sizeof(StampBlock)) {
  MRMF_CUDA(cudaMemsetAsync(stamps_.get(), 0, stamps_.bytes(), stream.device().stream()));
}

NcclWait::~NcclWait() { stream_.device().step_graphs().drop_captures(); }  // captures hold the stamps

void NcclWait::begin() {
  done_.record(stream_.get());
  begun_ = true;
}

void NcclWait::end() {
  if (!std::exchange(begun_, false)) return;
  const cudaStream_t compute = stream_.device().stream();
  stamp_begin(compute, stamps_.get<StampBlock>());
  done_.wait(compute);
  stamp_end(compute, stamps_.get<StampBlock>());
}

SumTime NcclWait::take_time() {
  const Device& device = stream_.device();
  StampBlock stamps;
  device.synchronise();  // by polling: the copy would block inside CUDA
  MRMF_CUDA(cudaMemcpyAsync(&stamps, stamps_.get(), sizeof(stamps), cudaMemcpyDeviceToHost, device.stream()));
  device.synchronise();
  MRMF_CUDA(cudaMemsetAsync(stamps_.get(), 0, stamps_.bytes(), device.stream()));
  return {.waited = 1e-9 * static_cast<double>(stamps.total)};
}

// The backend's door to NCCL: one communicator for each set of ranks, whatever uses it.

namespace {

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

class NcclConnections final : public Connections {
 public:
  explicit NcclConnections(Device& device) : stream_(device) {
    require_version();
    set_environment(device.settings());
  }

  std::unique_ptr<AllReduce> all_reduce(const Peers& peers) override {
    return make_nccl_sums(between(peers), peers.rank, peers.size);
  }
  std::unique_ptr<Messages> messages(const Peers& peers) override {
    return make_nccl_messages(between(peers), peers.rank);
  }

 private:
  // Ranks make and drop what uses a communicator in one order, so all of a set have it or none has.
  std::shared_ptr<NcclCommunicator> between(const Peers& peers) {
    MRMF_CHECK(std::ssize(peers.ranks) == peers.size, "the ranks' places in the world are missing");
    std::weak_ptr<NcclCommunicator>& known = made_[peers.ranks];
    if (auto communicator = known.lock()) return communicator;
    auto communicator = std::make_shared<NcclCommunicator>(stream_, peers);
    known = communicator;
    return communicator;
  }

  NcclStream stream_;
  std::map<std::vector<int>, std::weak_ptr<NcclCommunicator>> made_;
};

}  // namespace

std::unique_ptr<Connections> make_nccl_connections(Device& device) { return std::make_unique<NcclConnections>(device); }

}  // namespace mrmf::cuda
