#include "src/training/data_and_spatial_parallel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/timer.hpp"
#include "layers/geometry_and_reach.hpp"
#include "mpi/environment.hpp"
#include "mpi/grid_exchange.hpp"
#include "mpi/reduce_scatter.hpp"
#include "src/system/host_info.hpp"
#include "src/training/gradient_compression.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {

std::uint64_t arena_hash(Backend& backend, ConstSpan values, std::uint64_t seed) {
  constexpr std::size_t at_once = std::size_t{1} << 20;
  std::vector<float> piece(std::min(values.size(), at_once));
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, seed);
  for (std::size_t first = 0; first < values.size(); first += piece.size()) {
    const Span read = Span(piece).first(std::min(piece.size(), values.size() - first));
    backend.read(values.subspan(first, read.size()), read);
    XXH3_64bits_update(&state, read.data(), read.size_bytes());
  }
  return XXH3_64bits_digest(&state);
}

namespace {

// Sums by MPI.
class MpiAllReduce final : public AllReduce {
 public:
  explicit MpiAllReduce(Comm& team) : team_(&team) {}

  void sum(std::span<double> values) override {
    const Timer timer;
    team_->sum(values);
    pending_.waited(timer.seconds());
  }
  void start(Span part) override {
    count_sent(part);
    pending_.start([&] { return team_->start_sum(part); });
  }
  bool updates() const override { return team_->sums_by_reduce_scatter(); }
  void start_update(Span part, Span values, const UpdatePiece& update) override {
    count_sent(part);
    const auto timed = [this, update](std::size_t first, std::size_t count) {
      const Timer updating;
      update(static_cast<Index>(first), static_cast<Index>(count));
      pending_.computed(updating.seconds());
    };
    pending_.start([&] { return team_->start_sum(part, {values, timed}, peers_ ? &*peers_ : nullptr); });
  }
  bool share_memory(std::span<const SharedBlock> blocks) override {
    peers_.reset();
    if (auto peers = PeerMemory::map(*team_, blocks)) peers_.emplace(std::move(*peers));
    return peers_.has_value();
  }
  void stop_sharing() override { peers_.reset(); }
  void finish() override { pending_.finish(); }
  SumTime take_time() override { return pending_.take_time(); }
  double take_sent() override { return std::exchange(sent_, 0); }

 private:
  // What a reduce-scatter sends, also where ranks read it in each other's memory, or MPI adds in its own way.
  void count_sent(Span part) {
    sent_ += sum_bytes(Communication::fp32, static_cast<double>(part.size()), team_->size());
  }

  Comm* team_;
  std::optional<PeerMemory> peers_;  // none: messages carry all values
  PendingSums pending_;
  double sent_ = 0;
};

void broadcast_bytes(Comm& team, std::span<std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  std::memcpy(text.data(), bytes.data(), bytes.size());
  team.broadcast(text, 0);
  std::memcpy(bytes.data(), text.data(), bytes.size());
}

Peers peers_of(Comm& team) {
  Peers peers{team.rank(), team.size(), {}, [&team](std::span<std::byte> bytes) { broadcast_bytes(team, bytes); }};
  for (const double rank : team.all_gather(MpiEnvironment::rank())) peers.ranks.push_back(static_cast<int>(rank));
  return peers;
}

std::vector<float> on_host(Backend& backend, ConstSpan values) {
  std::vector<float> copy(values.size());
  backend.read(values, copy);
  return copy;
}

// Every rank's number, as halves that a double holds exactly.
std::vector<std::uint64_t> gather(std::uint64_t mine, Comm& team) {
  const std::vector<double> high = team.all_gather(static_cast<double>(mine >> 32));
  const std::vector<double> low = team.all_gather(static_cast<double>(mine & 0xffffffffU));
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < high.size(); ++i)
    all.push_back(static_cast<std::uint64_t>(high[i]) << 32 | static_cast<std::uint64_t>(low[i]));
  return all;
}

// The first part that is not the same on all its ranks, where ranks hold several parts.
double differing_part(const std::vector<std::uint64_t>& hashes, const std::vector<double>& parts) {
  std::map<double, std::set<std::uint64_t>> by_part;
  for (std::size_t i = 0; i < hashes.size(); ++i) by_part[parts[i]].insert(hashes[i]);
  return std::ranges::find_if(by_part, [](const auto& one) { return one.second.size() > 1; })->first;
}

// "rank 2 (node7) differs from the other 3": names the ranks that differ from most of those with the same part. "rank 0
// (a), rank 1 (b) are not the same" when no hash is more frequent than the others. Names at most a line's worth of
// ranks.
std::string differing_text(std::uint64_t hash, int part, Comm& team) {
  const std::vector<std::uint64_t> hashes = gather(hash, team);
  const std::vector<double> in_world = team.all_gather(MpiEnvironment::rank()), parts = team.all_gather(part);
  const double differing = differing_part(hashes, parts);
  std::map<std::uint64_t, std::size_t> count;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    if (parts[i] == differing) ++count[hashes[i]];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::ranges::max_element(count, less);
  const bool told = std::ranges::count_if(count, [&](const auto& c) { return c.second == most->second; }) == 1;
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (parts[i] != differing || (told && hashes[i] == most->first)) continue;
    std::string host = host_name();
    if (names.size() < kNamed) team.broadcast(host, static_cast<int>(i));
    names.push_back(fmt::format("rank {:.0f} ({})", in_world[i], host));
  }
  const std::size_t odd = names.size();
  if (odd > kNamed) names.resize(kNamed), names.push_back("...");
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (!told) return list + " are not the same";
  return fmt::format("{} {} from the other {}", list, odd == 1 ? "differs" : "differ", most->second);
}

}  // namespace

std::unique_ptr<AllReduce> make_all_reduce(Backend& backend, Comm& team) {
  if (team.size() == 1) return nullptr;
  if (auto own = backend.all_reduce(peers_of(team))) return own;
  return std::make_unique<MpiAllReduce>(team);
}

std::unique_ptr<Messages> make_messages(Backend& backend, Comm& sample_group) {
  if (auto own = backend.messages(peers_of(sample_group))) return own;
  return make_messages(sample_group);
}

bool updates_in_pieces(const TrainingConfig& training, const SumSettings& sums, bool by_pieces) {
  return by_pieces && training.clip_norm == 0 && !training.update_in_place && sums.adds_plainly();
}

void require_same_model(Backend& backend, Model& model, Compared what, const ComparedRanks& ranks,
                        const std::string& position) {
  if (ranks.team.size() == 1) return;
  const auto refuse = [&](std::uint64_t hash, int part) {
    throw FaultError(
        fmt::format("the ranks disagree on the parameters {}: {}; look for a faulty node or mixed builds of mrmf",
                    position, differing_text(hash, part, ranks.team)));
  };
  const ConstSpan params = model.params();
  const std::vector<ArenaSpan>& cuts = model.layout().partitioned();
  std::uint64_t common = 0, own = 0;
  std::size_t first = 0;
  for (const ArenaSpan& cut : cuts) {
    const auto begin = static_cast<std::size_t>(cut.first), end = static_cast<std::size_t>(cut.end());
    common = arena_hash(backend, params.subspan(first, begin - first), common);
    own = arena_hash(backend, params.subspan(begin, end - begin), own);
    first = end;
  }
  common = arena_hash(backend, params.subspan(first), common);
  if (what == Compared::parameters_and_state) common = arena_hash(backend, model.state(), common);
  if (!ranks.team.all_equal(common)) refuse(common, 0);
  if (!cuts.empty() && ranks.team.any(!ranks.same_block.all_equal(own)))
    refuse(own, ranks.team.rank() % model.layout().ranks());
}

void average_state(Backend& backend, Model& model, Comm& team) {
  std::vector<float> state = on_host(backend, model.state());
  team.sum(state);
  const auto share = 1.0F / static_cast<float>(team.size());
  for (float& value : state) value *= share;
  backend.write(state, model.state());
}

namespace {

Comm part_of(Comm& team, const Grid& grid, bool group) {
  require_whole_sample_groups(grid, team.size());
  const int blocks = grid.ranks();
  return team.split(group ? team.rank() / blocks : team.rank() % blocks);
}

// The positions of samples that a block needs at any of these resolutions, such that all of them divide its ends.
Box read_block(const Plan& plan, const Config& config, const Shape& sample, const SampleGrid& grid,
               const std::vector<Extent>& resolutions) {
  const auto backend = make_reference_backend();
  Extent first = sample.spatial, end{0, 0, 0}, step{1, 1, 1};
  for (const Extent& resolution : resolutions) {
    const Network network(*backend, network_settings(config, plan, sample, resolution));
    const Box box = Partition(network, grid.grid()).tensor(0).stored.block(grid.grid().coordinates(grid.block()));
    for (std::size_t a = 0; a < 3; ++a) {
      first[a] = std::min(first[a], box.first[a] * resolution[a]);
      end[a] = std::max(end[a], box.end(a) * resolution[a]);
      step[a] = std::lcm(step[a], resolution[a]);
    }
  }
  Box block;
  for (std::size_t a = 0; a < 3; ++a) {
    block.first[a] = first[a] / step[a] * step[a];
    block.count[a] = std::min((end[a] + step[a] - 1) / step[a] * step[a], sample.spatial[a]) - block.first[a];
  }
  return block;
}

}  // namespace

void require_whole_sample_groups(const Grid& grid, int ranks) {
  if (ranks % grid.ranks() == 0) return;
  throw ConfigError(fmt::format(
      "run.grid = {} shares each sample among {} ranks, and there {} {}; start a multiple of {}, or use another grid",
      grid.text(), grid.ranks(), ranks == 1 ? "is" : "are", ranks, grid.ranks()));
}

SampleGrid::SampleGrid(Backend& backend, const Grid& grid, Comm& team)
    : grid_(grid),
      sample_group_(part_of(team, grid, true)),
      same_block_(part_of(team, grid, false)),
      messages_(make_messages(backend, sample_group_)),
      over_same_block_(make_all_reduce(backend, same_block_)),
      over_sample_group_(make_all_reduce(backend, sample_group_)) {}

SumTime SampleGrid::take_time() {
  SumTime all = messages_->take_time();
  for (AllReduce* const sums : {over_same_block_.get(), over_sample_group_.get()}) {
    if (sums == nullptr) continue;
    const SumTime time = sums->take_time();
    all.waited += time.waited;
    all.hidden += time.hidden;
  }
  return all;
}

StageGrids::StageGrids(Backend& backend, const Config& config, const Plan& plan, const Shape& sample, Comm& world)
    : plan_(plan), world_(world) {
  for (const Extent& resolution : plan.resolutions()) {
    const Grid grid{plan.grid(resolution)};
    Shared& shared = grids_[grid.blocks];
    shared.resolutions.push_back(resolution);
    if (!shared.ranks && grid.ranks() > 1) shared.ranks = std::make_unique<SampleGrid>(backend, grid, world);
  }
  for (auto& [blocks, shared] : grids_)
    if (shared.ranks) shared.block = read_block(plan, config, sample, *shared.ranks, shared.resolutions);
}

DataShare StageGrids::share(const Extent& resolution) {
  Shared& shared = of(resolution);
  if (!shared.ranks) return {world_, {}, {}};
  return {shared.ranks->same_block(), shared.block, shared.resolutions, &world_};
}

}  // namespace mrmf
