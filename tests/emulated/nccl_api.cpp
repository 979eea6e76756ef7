// NCCL's entry points.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/emulated/machine.hpp"
#include "tests/emulated/nccl_collective.hpp"
#include "tests/emulated/nccl_messages.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;
using namespace mrmf::emulated::nccl;

struct ncclComm {
  std::shared_ptr<Communicator> communicator;
};

namespace {

/// Calls between ncclGroupStart and ncclGroupEnd of this thread.
struct Group {
  int depth = 0;
  std::vector<std::shared_ptr<Communicator>> starting;
  struct Launch {
    std::shared_ptr<Communicator> communicator;
    std::function<void()> run;
    bool messages = false;
  };
  std::vector<Launch> launches;
  /// Messages of one communicator on one stream: they continue side by side.
  struct Talk {
    std::shared_ptr<Communicator> communicator;
    cudaStream_t stream;
    std::vector<Transfer> transfers;
  };
  std::vector<Talk> talks;
};

Group& group() {
  thread_local Group open;
  return open;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  warn(text);
  return result;
}

ncclResult_t end_group() {
  Group ended;
  std::swap(ended, group());
  ncclResult_t result = ncclSuccess;
  for (const auto& each : ended.starting) {
    if (each->identity().blocking) each->wait_until_ready();
    if (each->state() != ncclSuccess) result = each->state();
    if (!each->identity().blocking && each->state() == ncclSuccess) result = ncclInProgress;  // as if it took longer
  }
  for (auto& talk : ended.talks) {
    auto operation = std::make_shared<Messages>(talk.communicator, std::move(talk.transfers));
    ended.launches.push_back({talk.communicator,
                              [operation, stream = talk.stream] {
                                enqueue(
                                    stream, [operation] { return operation->advance(); }, "NCCL messages");
                              },
                              true});
  }
  for (auto& launch : ended.launches) {
    if (launch.communicator->must_defer(launch.messages)) {
      launch.communicator->defer(std::move(launch.run), launch.messages);
      result = ncclInProgress;
      continue;
    }
    try {
      launch.run();
    } catch (const Failure& failure) {
      return refuse(ncclUnhandledCudaError, failure.what());
    }
  }
  return result;
}

ncclResult_t start(ncclComm_t* comm, const Identity& identity) {
  try {
    check_devices();
    *comm = new ncclComm{std::make_shared<Communicator>(identity)};
  } catch (const Failure& failure) {
    return refuse(ncclUnhandledCudaError, failure.what());
  } catch (const std::exception& error) {
    return refuse(ncclSystemError, error.what());
  }
  group().starting.push_back((*comm)->communicator);
  return group().depth ? ncclSuccess : end_group();
}

/// Sizes in elements: what this rank sends and receives.
struct Buffers {
  const void* send;
  void* receive;
  std::size_t sent, received;
};

/// Whether a call may begin.
ncclResult_t ready(ncclComm_t comm) {
  if (!comm) return refuse(ncclInvalidArgument, "a null communicator");
  const ncclResult_t state = comm->communicator->state();
  if (state == ncclInProgress || comm->communicator->has_deferred())
    return refuse(ncclInvalidArgument, "the communicator's previous call is in progress: ask ncclCommGetAsyncError");
  return state;
}

ncclResult_t talk(ncclComm_t comm, cudaStream_t stream, Transfer transfer, ncclDataType_t type) {
  if (const ncclResult_t state = ready(comm); state != ncclSuccess) return state;
  const auto communicator = comm->communicator;
  const std::size_t size = nccl::bytes_of(type);
  if (size == 0) return refuse(ncclInvalidArgument, "data type " + std::to_string(type) + " is not emulated");
  transfer.bytes *= size;
  if (transfer.peer < 0 || transfer.peer >= communicator->identity().ranks || transfer.bytes == 0 ||
      transfer.peer == communicator->identity().rank)
    return refuse(ncclInvalidArgument, "a message to no other rank, or an empty one, is not emulated");
  if (!is_device_memory(transfer.data, transfer.bytes))
    return refuse(ncclInvalidArgument, "a buffer does not lie in device memory with its whole size");
  auto& talks = group().talks;
  auto at = std::find_if(talks.begin(), talks.end(),
                         [&](const auto& t) { return t.communicator == communicator && t.stream == stream; });
  if (at == talks.end()) at = talks.insert(at, {communicator, stream, {}});
  for (const Transfer& other : at->transfers)
    if (other.peer == transfer.peer && other.sends == transfer.sends)
      return refuse(ncclInvalidArgument, "two messages of a group between the same ranks are not emulated");
  at->transfers.push_back(transfer);
  return group().depth ? ncclSuccess : end_group();
}

ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, const Call& call, const Buffers& buffers) {
  if (const ncclResult_t state = ready(comm); state != ncclSuccess) return state;
  const auto communicator = comm->communicator;
  const std::size_t size = nccl::bytes_of(static_cast<ncclDataType_t>(call.type));
  if (size == 0) return refuse(ncclInvalidArgument, "data type " + std::to_string(call.type) + " is not emulated");
  if (call.root < 0 || call.root >= communicator->identity().ranks) return refuse(ncclInvalidArgument, "no such root");
  if (call.count == 0) return ncclSuccess;
  const bool sends = call.kind != nccl::broadcast || call.root == communicator->identity().rank;
  if ((sends && !is_device_memory(buffers.send, buffers.sent * size)) ||
      !is_device_memory(buffers.receive, buffers.received * size))
    return refuse(ncclInvalidArgument, "a buffer does not lie in device memory with its whole size");
  auto operation = std::make_shared<nccl::Operation>(communicator, call, buffers.send, buffers.receive);
  group().launches.push_back({communicator, [operation, stream] {
                                enqueue(
                                    stream, [operation] { return operation->advance(); }, "NCCL sum");
                              }});
  return group().depth ? ncclSuccess : end_group();
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl_version();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_warning(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string name = "/mrmf-emulated-nccl-" + std::to_string(getpid()) + "-" + std::to_string(random());
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.c_str(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  *comm = nullptr;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks || id.internal[0] != '/')
    return refuse(ncclInvalidArgument, "a rank, a number of ranks or a unique id that cannot be");
  if (config && (config->size != sizeof(ncclConfig_t) || config->magic != 0xcafebeef))
    return refuse(ncclInvalidArgument, "a configuration that NCCL_CONFIG_INITIALIZER has not initialised");
  const bool blocking = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking != 0;
  return start(comm, {id.internal, ranks, rank, current_device(), blocking});
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  *made = nullptr;
  Communicator& parent = *comm->communicator;
  const Identity& identity = parent.identity();
  const std::uint64_t turn = ++parent.splits;
  const auto wait_for = [&](std::atomic<std::uint64_t> Slot::*counter, std::uint64_t value) {
    for (int rank = 0; rank < identity.ranks; ++rank)
      while (parent.peer(rank).*counter < value && parent.state() == ncclSuccess) usleep(100);
    return parent.state() == ncclSuccess;
  };
  if (!wait_for(&Slot::split_read, turn - 1)) return parent.state();
  parent.own().color = color;
  parent.own().key = key;
  parent.own().split_published = turn;
  if (!wait_for(&Slot::split_published, turn)) return parent.state();
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int rank = 0; rank < identity.ranks; ++rank)
    if (parent.peer(rank).color == color) members.emplace_back(parent.peer(rank).key, rank);
  parent.own().split_read = turn;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::sort(members.begin(), members.end());
  const auto at = std::find(members.begin(), members.end(), std::pair{key, identity.rank});
  const bool blocking = config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : identity.blocking;
  return start(
      made, {identity.name + "-" + std::to_string(turn) + "-" + std::to_string(color), static_cast<int>(members.size()),
             static_cast<int>(at - members.begin()), identity.device, blocking});
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  try {
    *error = comm->communicator->poll();
  } catch (const Failure& failure) {
    *error = refuse(ncclUnhandledCudaError, failure.what());
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->communicator->finalize();
  return comm->communicator->state();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::unique_ptr<ncclComm> gone(comm);
  if (comm && !comm->communicator->aborted()) comm->communicator->finalize();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::unique_ptr<ncclComm> gone(comm);
  if (comm) comm->communicator->abort();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->communicator->identity().ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->communicator->identity().rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->communicator->identity().device;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group().depth ? ncclSuccess : end_group();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (op != ncclSum && op != ncclMax && op != ncclMin)
    return refuse(ncclInvalidArgument, "reduction " + std::to_string(op) + " is not emulated");
  const Call call{all_reduce, static_cast<std::uint32_t>(type), static_cast<std::uint32_t>(op), 0, count};
  return launch(comm, stream, call, {send, receive, count, count});
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{nccl::broadcast, static_cast<std::uint32_t>(type), 0, root, count};
  return launch(comm, stream, call, {send, receive, count, count});
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const Call call{all_gather, static_cast<std::uint32_t>(type), 0, 0, count};
  const size_t ranks = comm ? static_cast<size_t>(comm->communicator->identity().ranks) : 0;
  return launch(comm, stream, call, {send, receive, count, count * ranks});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return talk(comm, stream, {true, peer, const_cast<char*>(static_cast<const char*>(send)), count}, type);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return talk(comm, stream, {false, peer, static_cast<char*>(receive), count}, type);
}

}  // extern "C"
