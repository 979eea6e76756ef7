// The backend's door to NCCL: one communicator for each set of ranks, whatever uses it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "kernels/cuda/backend.hpp"
#include "mpi/nccl_communicator.hpp"

namespace mrmf::cuda {
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

  std::unique_ptr<AllReduce> all_reduce(const Peers& peers) override { return make_nccl_sums(between(peers)); }
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
