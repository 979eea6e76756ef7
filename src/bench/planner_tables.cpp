// `mrmf bench tables`: measures the times from which the planner predicts; declared in bench.hpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <numeric>
#include <ostream>
#include <set>
#include <tuple>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/grid_exchange.hpp"
#include "src/bench/bench.hpp"
#include "src/config/model_config.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/training/cpu_kernel_autotuning.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf {
namespace {

constexpr double kFloat = sizeof(float);

/// One network on one block.
struct Job {
  std::string title;
  ModelSettings model;
  OptimizerSettings optimizer;
  LossSettings loss = LossSettings::single(LossKind::mse);
};

// Half the positions along every axis that has 16 or more.
Shape halved(const Shape& sample) {
  Shape half = sample;
  for (Index& positions : half.spatial)
    if (positions >= 16) positions /= 2;
  return half;
}

// Operations of a step of one such sample; none where the network does not fit the sample.
std::optional<double> step_flop(Backend& backend, NetworkSettings network, const Shape& sample) {
  network.sample = sample;
  try {
    return 3 * Network(backend, network).flop();
  } catch (const ConfigError&) {
    return {};
  }
}

// A preset for which a step's arithmetic is about `flop`: smaller samples first, then more of them.
Job preset_job(Backend& backend, const Preset& preset, double flop) {
  NetworkSettings network{parse_sample(preset.sample), 1, preset_layers(preset.name), {}};
  double step = *step_flop(backend, network, network.sample);
  for (int halvings = 0; halvings < 2 && step > flop; ++halvings) {
    const Shape half = halved(network.sample);
    const std::optional<double> less = step_flop(backend, network, half);
    if (!less) break;
    network.sample = half;
    step = *less;
  }
  network.max_rows = std::clamp<Index>(static_cast<Index>(flop / step), 1, 256);
  return {preset.name, {.network = network}, {}};
}

// Also of a grid of all ranks along the first axis: cut layers are other operations, because less can be fused.
std::vector<Job> preset_jobs(Backend& backend, int ranks) {
  std::vector<Job> jobs;
  for (const Preset& preset : preset_list()) {
    if (preset.parts) continue;
    for (const double flop : {4e9, 24e9}) jobs.push_back(preset_job(backend, preset, flop));
    Job cut = jobs.back();
    cut.model.grid.blocks.at(3 - static_cast<std::size_t>(cut.model.network.sample.axes)) = ranks;
    if (ranks == 1) continue;
    try {
      const Network network(backend, cut.model.network);
      const Partition fits(network, cut.model.grid);
      jobs.push_back(cut);
    } catch (const ConfigError&) {  // the grid does not fit the network
    }
  }
  return jobs;
}

// The plan's networks on every grid that fits the ranks, with the mini-batch that is configured.
std::vector<Job> config_jobs(Backend& backend, const TablesSettings& settings) {
  const Config& config = *settings.config;
  const Plan plan = make_plan(config);
  std::vector<Job> jobs;
  std::set<std::tuple<Extent, Extent, Index>> seen;  // phases share resolutions
  for (const Phase& phase : plan.phases()) {
    const Index mini_batch = phase.batch * std::max(1, settings.ranks / Grid{phase.grid}.ranks());
    for (const Grid& grid : grids_of(settings.ranks, settings.sample.axes)) {
      const Index teams = settings.ranks / grid.ranks();
      if (mini_batch % teams != 0 || !seen.emplace(phase.resolution, grid.blocks, mini_batch / teams).second) continue;
      ModelSettings model{.network = network_settings(config, plan, settings.sample, phase.resolution), .grid = grid};
      model.network.max_rows = config.training.rows_at_once(static_cast<int>(mini_batch / teams));
      try {
        const Network network(backend, model.network);
        for (const int block :
             grid.ranks() == 1 ? std::vector{0} : different_blocks(Partition(network, grid), network)) {
          model.block = block;
          jobs.push_back({phase_text(phase), model, phase.optimizer, config.training.loss});
        }
      } catch (const ConfigError&) {  // the grid does not fit the network
      }
    }
  }
  return jobs;
}

/// Runs the jobs of one round and keeps their times.
class Measurement {
 public:
  Measurement(Backend& backend, Comm& world, double seconds) : backend_(backend), world_(world), seconds_(seconds) {}

  /// What was run, for people.
  std::string run(const Job& job) {
    TimedSteps steps(backend_, job.model, job.optimizer, job.loss);
    const int timed = run_steps(steps);
    const Model& model = steps.model();
    const BlockWork work = block_work(model.network(), model.execution(), job.model);
    const auto rows = static_cast<double>(model.input().n);
    MeasuredStep step{fmt::format("{}: sample {}, {} rows, block {}", job.title, to_string(model.input()),
                                  model.input().n, job.model.block)};
    for (std::size_t u = 0; u < steps.units.size(); ++u) {
      const double forward = mean(median(steps.units[u].forward)), backward = mean(median(steps.units[u].backward));
      const Operation& operation = work.operations[u];
      if (!operation.gives_no_work) add(steps, u, operation, point_of(operation, rows, forward), backward);
      step.seconds += forward + backward;
    }
    step.waiting = waiting(steps);
    updates_.push_back(
        {to_string(job.optimizer.name), static_cast<double>(model.params().size()), mean(median(steps.update))});
    losses_.emplace_back(rows * static_cast<double>(work.output), mean(median(steps.loss)));
    steps_.push_back(step);
    return fmt::format("{}; {} steps", step.network, timed);
  }

  TableRound give(TeamTables team) {
    team.operations = std::move(operations_);
    team.updates = std::move(updates_);
    team.loss = fit_line(losses_);
    return {std::move(team), std::move(steps_)};
  }

 private:
  double mean(double seconds) { return world_.sum(seconds) / world_.size(); }

  RankWaiting waiting(const TimedSteps& steps) {
    if (world_.size() == 1) return {};
    double all = 0;
    RankWaiting slowest;
    for (std::size_t i = 0; i < steps.loss.size(); ++i) {
      double own = 0;
      const auto add = [&](double seconds) { own += seconds, slowest.unit += world_.max(seconds); };
      add(steps.loss[i]);
      for (const UnitTimes& unit : steps.units) add(unit.forward[i]), add(unit.backward[i]);
      all += mean(own);
      slowest.step += world_.max(own);
    }
    const auto part = [&](double seconds) { return std::max(0.0, seconds / all - 1); };  // not below, by rounding
    return {part(slowest.step), part(slowest.unit)};
  }

  // All ranks compute at the same time, as in training.
  int run_steps(TimedSteps& steps) {
    constexpr int kLeast = 3, kMost = 200;
    steps.run(false);
    world_.barrier();
    const Timer one;
    steps.run(false);
    const double seconds = world_.max(one.seconds());
    const int timed = std::clamp(static_cast<int>(seconds_ / seconds), kLeast, kMost);
    for (int i = 0; i < timed; ++i) {
      world_.barrier();
      steps.run(true);
    }
    return timed;
  }

  static OperationTime point_of(const Operation& operation, double rows, double forward) {
    return {operation.key,
            to_string(operation.in),
            rows,
            rows * operation.work(),
            rows * operation.flop,
            kFloat * (rows * operation.elements + static_cast<double>(operation.parameters)),
            forward};
  }

  void add(TimedSteps& steps, std::size_t u, const Operation& operation, OperationTime point, double backward) {
    if (!operation.data_gradient) {
      point.weights = backward;
    } else if (operation.weighted) {  // the share of the weights' pass when it is alone
      constexpr int kRepeats = 5;
      const TimedSteps::Backward alone = steps.backward_alone(u, kRepeats);
      const double share = std::min(1.0, mean(alone.weights / alone.both));
      point.weights = share * backward;
      point.data = (1 - share) * backward;
    } else {
      point.data = backward;
    }
    operations_.push_back(std::move(point));
  }

  Backend& backend_;
  Comm& world_;
  double seconds_;
  std::vector<MeasuredStep> steps_;
  std::vector<OperationTime> operations_;
  std::vector<UpdateTime> updates_;
  std::vector<std::pair<double, double>> losses_;
};

// The median over ranks and repeats of something that all do at once.
double collective_seconds(Comm& world, int repeats, const std::function<void()>& action) {
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    world.barrier();
    const Timer timer;
    action();
    if (i > 0) times.push_back(timer.seconds());
  }
  return world.sum(median(times)) / world.size();
}

constexpr std::array<Index, 7> kFloats{256, 4096, 16384, 65536, 262144, 1048576, 4194304};
constexpr int kRepeats = 15;

// Between neighbours, both ways at once, as at the cut of a sample.
Line message_line(Comm& world) {
  const std::unique_ptr<Messages> messages = make_messages(world);
  const int other = world.rank() ^ 1;
  const bool has_other = other < world.size();
  std::vector<std::pair<double, double>> measured;
  for (const Index floats : kFloats) {
    std::vector<float> out(static_cast<std::size_t>(floats)), in(out.size());
    std::vector<Message> sent, received;
    if (has_other) sent.push_back({other, out}), received.push_back({other, in});
    measured.emplace_back(kFloat * static_cast<double>(floats), collective_seconds(world, kRepeats, [&] {
                            messages->start(sent, received);
                            messages->finish();
                          }));
  }
  return fit_line(measured);
}

// Calls action(part) for the parts of so many gradients in which backward gives them.
void for_each_part(Index floats, const std::function<void(const ArenaSpan&)>& action) {
  constexpr Index kPart = Index{1} << 18;
  for (Index first = 0; first < floats; first += kPart) action({first, std::min(kPart, floats - first)});
}

Line sum_line(AllReduce& sums, Comm& world) {
  std::vector<std::pair<double, double>> measured;
  for (const Index floats : kFloats) {
    std::vector<float> values(static_cast<std::size_t>(floats));
    measured.emplace_back(kFloat * static_cast<double>(floats), collective_seconds(world, kRepeats, [&] {
                            for_each_part(floats,
                                          [&](const ArenaSpan& span) { sums.start(span_at(Span(values), span)); });
                            sums.finish();
                          }));
  }
  return fit_line(measured);
}

// With updates that take no time, in memory that ranks share, as training has it
// (src/training/data_and_spatial_parallel.hpp).
std::optional<Line> update_sum_line(AllReduce& sums, Backend& backend, Comm& world) {
  if (!sums.updates()) return {};
  Arena gradients = backend.allocate_shared(kFloats.back()), params = backend.allocate_shared(kFloats.back());
  const std::array blocks{SharedBlock{gradients.span(), gradients.file()}, SharedBlock{params.span(), params.file()}};
  if (!sums.share_memory(blocks)) return {};
  std::vector<std::pair<double, double>> measured;
  for (const Index floats : kFloats)
    measured.emplace_back(kFloat * static_cast<double>(floats), collective_seconds(world, kRepeats, [&] {
                            for_each_part(floats, [&](const ArenaSpan& span) {
                              sums.start_update(span_at(gradients.span(), span), span_at(params.span(), span),
                                                [](Index, Index) {});
                            });
                            sums.finish();
                          }));
  sums.stop_sharing();
  return fit_line(measured);
}

// Copying rows out of a large array.
Line load_line(Comm& world) {
  const auto most = static_cast<std::size_t>(kFloats.back());
  std::vector<float> from(4 * most, 1.0F), to(most);
  std::vector<std::pair<double, double>> measured;
  std::size_t at = 0;
  for (const Index floats : kFloats) {
    const auto count = static_cast<std::size_t>(floats);
    measured.emplace_back(kFloat * static_cast<double>(floats), collective_seconds(world, kRepeats, [&] {
                            std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), count, to.begin());
                            at = (at + 3 * count) % (3 * most);
                          }));
  }
  return fit_line(measured);
}

// Bytes per second of all ranks together, of the first file that is there, as far as it is not in memory already.
double read_rate(const std::vector<std::string>& files, Comm& world) {
  constexpr std::size_t kMost = std::size_t{1} << 28;
  std::error_code absent;
  if (files.empty() || !std::filesystem::is_regular_file(files.front(), absent)) return 0;
  double read = 0, seconds = 0;
  collective_try(world, [&] {
    const InputFile file(files.front());
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<char> buffer(std::size_t{1} << 22);
    const Timer timer;
    for (ssize_t got = 1; got > 0 && read < kMost; read += static_cast<double>(got))
      got = std::max<ssize_t>(0, ::read(file.number(), buffer.data(), buffer.size()));
    seconds = timer.seconds();
  });
  const double slowest = world.max(seconds);
  return slowest > 0 ? world.sum(read) / slowest : 0;
}

// What moves between ranks, and from memory.
void measure_transport(TeamTables& team, Backend& backend, Comm& world) {
  team.load = load_line(world);
  if (world.size() == 1) return;
  const std::unique_ptr<AllReduce> sums = make_all_reduce(backend, world);
  std::vector<double> few(64);
  team.message = message_line(world);
  team.sum = sum_line(*sums, world);
  team.update_sum = update_sum_line(*sums, backend, world);
  team.codings = coding_times(world);
  team.small_sum = collective_seconds(world, 100, [&] { sums->sum(few); });
}

std::string waiting_text(const RankWaiting& waiting) {
  return fmt::format(
      "the slowest rank takes {:.0f} % longer than the mean of the ranks, step by step; {:.0f} %, unit by unit\n",
      100 * waiting.step, 100 * waiting.unit);
}

std::string spread_text(const RoundSpread& spread) {
  return fmt::format(
      "medians are kept; a step differs between rounds by {:.0f} % (median over networks), at most by {:.0f} % ({})\n",
      100 * spread.median, 100 * spread.most, spread.worst);
}

}  // namespace

CostTables no_tables(Backend& backend) {
  const std::string description = backend.description();  // the number of threads comes last: each team has its own
  std::string library = description.substr(0, description.find(", threads"));
  if (cpu::kernel_choices(backend) == nullptr) library += kDefaultKernels;
  return {this_machine(), library, these_versions("").mrmf, 0, {}};
}

CostTables measure_tables(const TablesSettings& given, Backend& backend, Comm& world, std::ostream& out) {
  if (!backend.synchronous())
    throw ConfigError(
        "mrmf bench tables measures the CPU; set run.device = \"cpu\", and for GPUs see mrmf plan --machine");
  TablesSettings settings = given;
  if (settings.ranks == 0) settings.ranks = world.size();
  const std::vector<Job> jobs = settings.config ? config_jobs(backend, settings) : preset_jobs(backend, settings.ranks);
  for (const Job& job : jobs) choose_kernels(backend, {job.model}, world);  // predictions are of runs that do the same
  std::vector<TableRound> rounds;
  Comm same_host = ranks_of_same(host_name(), world);
  for (int number = 1; number <= settings.rounds; ++number) {
    Measurement measurement(backend, world, settings.seconds / settings.rounds);
    if (world.root()) out << fmt::format("round {} of {}\n", number, settings.rounds) << std::flush;
    for (const Job& job : jobs) {
      const std::string done = measurement.run(job);
      if (world.root() && number == 1) out << "  " << done << '\n' << std::flush;
    }
    TeamTables team;
    team.ranks = same_host.size();
    team.threads = settings.threads;
    measure_transport(team, backend, world);
    rounds.push_back(measurement.give(std::move(team)));
  }
  CostTables tables = no_tables(backend);
  tables.machine.cores = cores_together(same_host);
  if (settings.config) tables.read = read_rate(settings.config->data.train.files, world);
  tables.teams.push_back(median_of(rounds));
  if (world.root() && !jobs.empty()) {
    if (settings.rounds > 1) out << spread_text(spread_of(rounds));
    if (world.size() > 1) out << waiting_text(tables.teams.back().waiting);
  }
  return tables;
}

}  // namespace mrmf
