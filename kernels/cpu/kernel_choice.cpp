#include "kernels/cpu/kernel_choice.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/direct_passes.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cpu {
namespace {

constexpr std::array<const char*, 4> kKinds{"conv", "norm_conv", "conv_pool", "dense"};

/// All numbers of a problem, in the order of its text.
std::vector<Index> numbers_of(const ConvProblem& p) {
  const ConvGeometry& g = p.geometry;
  std::vector<Index> numbers{p.rows, p.threads, p.window[2], g.in_channels, g.out_channels, g.bias ? 1 : 0};
  for (const Extent& extent : {g.in, g.kernel, g.stride, g.pad_before, g.pad_after, g.dilation})
    numbers.insert(numbers.end(), extent.begin(), extent.end());
  if (p.window[0] > 1 || p.window[1] > 1) numbers.insert(numbers.end(), {p.window[0], p.window[1]});
  return numbers;
}

ConvProblem problem_of(ConvProblem::Kind kind, const std::vector<Index>& numbers) {
  auto at = numbers.begin();
  ConvProblem p{kind};
  p.rows = *at++;
  p.threads = static_cast<int>(*at++);
  p.window[2] = *at++;
  p.geometry.in_channels = *at++;
  p.geometry.out_channels = *at++;
  p.geometry.bias = *at++ != 0;
  for (Extent ConvGeometry::*extent : {&ConvGeometry::in, &ConvGeometry::kernel, &ConvGeometry::stride,
                                       &ConvGeometry::pad_before, &ConvGeometry::pad_after, &ConvGeometry::dilation})
    for (Index& number : p.geometry.*extent) number = *at++;
  if (at != numbers.end()) p.window[0] = *at++, p.window[1] = *at++;
  return p;
}

/// Whether a convolution can have these sizes. Its weights can be counted.
bool sound(const ConvProblem& p) {
  constexpr Index most = Index{1} << 24;
  for (const Index number : numbers_of(p))
    if (number < -most || number > most) return false;
  const ConvGeometry& g = p.geometry;
  constexpr double most_weights = 1e15;
  double weights = static_cast<double>(g.in_channels) * static_cast<double>(g.out_channels);
  for (const Index taps : g.kernel) weights *= static_cast<double>(taps);
  if (weights > most_weights) return false;
  const auto positive = [](const Extent& extent) { return std::ranges::all_of(extent, [](Index n) { return n > 0; }); };
  return p.rows > 0 && p.threads > 0 && positive(p.window) && g.in_channels > 0 && g.out_channels > 0 &&
         positive(g.in) && positive(g.kernel) && positive(g.stride) && positive(g.dilation) && positive(g.out());
}

}  // namespace

std::string ConvProblem::text() const {
  std::string line = kKinds.at(static_cast<std::size_t>(kind));
  for (const Index number : numbers_of(*this)) line += " " + std::to_string(number);
  return line;
}

std::optional<ConvProblem> ConvProblem::parse(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  words >> kind;
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end()) return std::nullopt;
  std::vector<Index> numbers;
  for (Index number = 0; words >> number;) numbers.push_back(number);
  const std::size_t fewest = numbers_of({}).size();
  if (!words.eof() || (numbers.size() != fewest && numbers.size() != fewest + 2)) return std::nullopt;
  const ConvProblem problem = problem_of(static_cast<Kind>(found - kKinds.begin()), numbers);
  if (!sound(problem)) return std::nullopt;
  return problem;
}

const KernelChoice* KernelChoices::find(const ConvProblem& problem) {
  const std::string text = problem.text();
  ++asked_[text];
  const bool in_one_pass = problem.kind == ConvProblem::Kind::conv_pool || problem.kind == ConvProblem::Kind::norm_conv;
  if (in_one_pass) {  // the convolution by itself is not run
    ConvProblem alone = problem;
    alone.kind = ConvProblem::Kind::conv, alone.window = {1, 1, 1};
    --asked_[alone.text()];
  }
  const auto found = choices_.find(text);
  return found == choices_.end() ? nullptr : &found->second;
}

std::set<std::string> KernelChoices::asked() const {
  std::set<std::string> asked;
  for (const auto& [text, times] : asked_)
    if (times > 0) asked.insert(text);
  return asked;
}

void KernelChoices::put(const std::string& problem, KernelChoice choice) {
  choices_.insert_or_assign(problem, std::move(choice));
}

std::set<std::string> KernelChoices::open() const {
  std::set<std::string> open = asked();
  for (const auto& [problem, choice] : choices_) open.erase(problem);
  return open;
}

std::string KernelChoices::text() const {
  std::ostringstream lines;
  lines.precision(6);
  for (const auto& [problem, choice] : choices_)
    lines << problem << '\t' << choice.kernels << '\t' << choice.fixed << '\t' << choice.chosen << '\n';
  return lines.str();
}

bool KernelChoices::add(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::map<std::string, KernelChoice> added;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string problem;
    KernelChoice choice;
    if (!std::getline(fields, problem, '\t') || !std::getline(fields, choice.kernels, '\t') ||
        !(fields >> choice.fixed >> choice.chosen) || !ConvProblem::parse(problem))
      return false;
    added.insert_or_assign(problem, std::move(choice));
  }
  for (auto& [problem, choice] : added) put(problem, std::move(choice));
  return true;
}

// Times a problem's kernels on made-up numbers.

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The two least times of a pass.
struct PassTimes {
  double least = kNever, second = kNever;
  void add(double seconds) {
    second = std::min(second, std::max(seconds, least));
    least = std::min(least, seconds);
  }
};

/// Some kernels in the trial. Where all passes are chosen together, they count as one.
struct Contestant {
  std::string kernels;
  std::vector<std::function<void()>> passes;  // an empty one is another contestant's
  std::array<PassTimes, 3> times{};
};

double best_of(const std::vector<Contestant>& contestants, std::size_t pass) {
  double best = kNever;
  for (const Contestant& c : contestants) best = std::min(best, c.times.at(pass).least);
  return best;
}

/// In turns, so that what else the machine does meets all of them. The first turn takes memory and makes primitives,
/// and is not counted. A pass that takes longer than another contestant's is not run again: after one time only if far
/// longer, because that one may have been unlucky. False where the machine is so busy that there was no time for two
/// turns.
bool run_trial(std::vector<Contestant>& contestants, const std::function<void()>& before_each) {
  constexpr int fewest = 2;
  constexpr std::array<double, 4> longer{kNever, kNever, 1.6, 1.2};  // by turn
  constexpr double limit = 0.6;                                      // seconds
  const Timer timer;
  for (int turn = 0; turn < std::ssize(longer); ++turn) {
    if (turn > 0 && timer.seconds() > limit) return turn > fewest;
    for (Contestant& c : contestants)
      for (std::size_t p = 0; p < c.passes.size(); ++p) {
        const double best = best_of(contestants, p), most = longer.at(static_cast<std::size_t>(turn)) * best;
        if (!c.passes[p] || (turn > 1 && c.times.at(p).least > most)) continue;
        before_each();
        const Timer pass;
        c.passes[p]();
        if (turn > 0) c.times.at(p).add(pass.seconds());
      }
  }
  return true;
}

/// The fastest whose pass is faster than the first one's by more than what clocks tell; else the first. What a busy
/// machine slows looks worse than it is, so once does not count.
const Contestant& winner(const std::vector<Contestant>& contestants, std::size_t pass) {
  constexpr double gain = 0.97;
  const double least = contestants.front().times.at(pass).least;
  const Contestant* best = &contestants.front();
  for (const Contestant& c : contestants)
    if (c.times.at(pass).second < gain * least && c.times.at(pass).least < best->times.at(pass).least) best = &c;
  return *best;
}

std::optional<KernelChoice> choice_of(std::vector<Contestant> contestants, const std::function<void()>& before_each) {
  if (!run_trial(contestants, before_each)) return std::nullopt;
  const Contestant& fixed = contestants.front();
  KernelChoice choice{fixed.kernels};
  std::vector<std::string> names;
  for (std::size_t p = 0; p < fixed.passes.size(); ++p) {
    const Contestant& best = winner(contestants, p);
    choice.fixed += fixed.times.at(p).least;
    choice.chosen += best.times.at(p).least;
    names.push_back(best.kernels);
  }
  const bool same = std::ranges::all_of(names, [&](const std::string& n) { return n == names.front(); });
  choice.kernels = names.front();
  if (!same) choice.kernels = names[0] + " " + names[1] + " " + names[2];
  return choice;
}

/// Numbers about as a network has them: zeros would be faster in some kernels.
Arena made_up(Index count, std::uint64_t key) {
  constexpr Index block = 1 << 16;  // then they come again: making many takes longer than a trial
  Arena arena = make_arena(count);
  const Span values = arena.span();
  Rng rng(key);
  for (float& value : values.first(static_cast<std::size_t>(std::min(count, block))))
    value = static_cast<float>(rng.uniform() - 0.5);
  for (std::size_t i = block; i < values.size(); ++i) values[i] = values[i - block];
  return arena;
}

/// A convolution's tensors and parameters, of so many rows.
struct Memory {
  ConvGeometry g;
  Index rows;
  Extent to;         // positions of y
  Arena x, y, w, b;  // and their gradients
  Arena dx, dy, dw, db;

  Memory(const ConvProblem& p, Index rows_now, const Extent& positions)
      : g(p.geometry),
        rows(rows_now),
        to(positions),
        x(made_up(rows * product(g.in) * g.in_channels, 1)),
        y(make_arena(rows * product(to) * g.out_channels)),
        w(made_up(g.weights(), 2)),
        b(made_up(g.bias ? g.out_channels : 0, 3)),
        dx(make_arena(std::ssize(x.span()))),
        dy(made_up(std::ssize(y.span()), 4)),
        dw(make_arena(g.weights())),
        db(make_arena(g.bias ? g.out_channels : 0)) {
    // Behind most dense layers is a ReLU, which lets half of the gradient through.
    if (p.kind == ConvProblem::Kind::dense)
      for (float& slope : dy.span()) slope = std::max(slope, 0.0F);
  }
  Tensor in(Arena& arena) const { return {{rows, g.in, g.in_channels, 3}, arena.span()}; }
  Tensor out(Arena& arena) const { return {{rows, to, g.out_channels, 3}, arena.span()}; }
};

/// Brings other numbers into the caches of each thread's core. In a step of a large network, a layer's input comes from
/// memory; a trial's few positions would be in the caches still, which flatters kernels that read them often.
class OtherNumbers {
 public:
  /// For a problem whose tensors fit into the caches, none: they are there in a step, too.
  OtherNumbers(const ConvProblem& p, const Extent& out)
      : numbers_(make_arena(tensors(p, out) > each * p.threads ? each * p.threads : 0)), sums_(1024) {}
  void operator()() {
    const Span all = numbers_.span();
    if (all.empty()) return;
#pragma omp parallel
    {
      const Index threads = omp_get_num_threads(), t = omp_get_thread_num(), count = std::ssize(all);
      float sum = 0;
      for (Index i = count * t / threads; i < count * (t + 1) / threads; i += line)
        sum += all[static_cast<std::size_t>(i)];
      sums_[static_cast<std::size_t>(t) % sums_.size()] = sum;
    }
  }

 private:
  static constexpr Index each = Index{1} << 20, line = 16;  // floats: 4 MB, more than any core's own caches
  static Index tensors(const ConvProblem& p, const Extent& out) {
    return p.rows * (product(p.geometry.in) * p.geometry.in_channels + product(out) * p.geometry.out_channels);
  }
  Arena numbers_;
  std::vector<float> sums_;
};

double flop_of_row(const ConvProblem& p) {
  return 2.0 * static_cast<double>(p.geometry.weights() * product(p.geometry.out()));
}

/// The problem of a trial: that of fewer planes, or of fewer of their rows, where a row of the batch would take longer
/// than a trial may. Kernels share out planes and bands of their rows among the threads, so some of both are left for
/// each. The last axis stays, by which kernels serve or not.
ConvProblem with_fewer_positions(ConvProblem p) {
  constexpr double most = 4e8;  // flop of a pass over one row, for each thread
  constexpr Index least_plane = 64;
  ConvGeometry& g = p.geometry;
  if (g.in[1] * g.in[2] < least_plane) return p;
  for (std::size_t a = 0; a < 2; ++a) {
    const double over = flop_of_row(p) / (most * p.threads);
    if (over <= 1) break;
    const Index reach = (g.kernel[a] - 1) * g.dilation[a] + 1, unit = g.stride[a] * p.window[a];
    const Index least = std::max<Index>({4 * reach, 8 * unit, 4 * p.threads * unit});
    const Index fewer = static_cast<Index>(static_cast<double>(g.in[a]) / over);
    if (least < g.in[a]) g.in[a] = std::max(least, fewer);
  }
  return p;
}

/// What threads can share of one row, at most: its planes, and where they are larger than a core's caches bands of
/// them.
Index shares_of_row(const ConvProblem& p) {
  if (p.kind == ConvProblem::Kind::conv_pool) return 1;  // a thread has whole samples
  const ConvGeometry& g = p.geometry;
  const Index plane = g.in[1] * g.in[2] * std::max(g.in_channels, g.out_channels) * Index{sizeof(float)};
  return g.out()[0] * std::max<Index>(1, plane / cache_room());
}

std::vector<Contestant> weighted_contestants(CpuBackend& backend, const ConvProblem& p, Memory& m) {
  std::vector<Contestant> contestants;
  for (const std::string& kernels : backend.kernels_of(p)) {
    const std::shared_ptr<WeightedOp> op = backend.weighted_by(kernels, p);
    if (op == nullptr) continue;
    contestants.push_back({kernels,
                           {[&m, op] { op->forward(m.in(m.x), m.w.span(), m.b.span(), m.out(m.y)); },
                            [&m, op] { op->backward_data(m.out(m.dy), m.w.span(), m.in(m.dx)); },
                            [&m, op] { op->backward_weights(m.in(m.x), m.out(m.dy), m.dw.span(), m.db.span()); }}});
    if (kernels == "taps" && contestants.size() > 1)  // its other passes are oneDNN's
      contestants.back().passes[0] = contestants.back().passes[1] = nullptr;
    if (kernels.starts_with("skipping")) contestants.back().passes[0] = nullptr;
  }
  return contestants;
}

/// Parameters and statistics of a batch norm of so many channels.
struct NormArenas {
  std::array<Arena, 8> arenas;
  explicit NormArenas(Index channels) {
    for (std::size_t i = 0; i < arenas.size(); ++i) arenas[i] = made_up(channels, i);
  }
  NormMemory memory() {
    return {arenas[0].span(), arenas[1].span(), arenas[2].span(), arenas[3].span(), arenas[4].span(), arenas[5].span()};
  }
};

std::vector<Contestant> norm_conv_contestants(CpuBackend& backend, const ConvProblem& p, Memory& m, NormArenas& norm) {
  NormSettings settings{p.geometry.in_channels};
  settings.in = p.geometry.in;
  std::vector<Contestant> contestants;
  for (const std::string& kernels : backend.kernels_of(p)) {
    const std::shared_ptr<NormConvOp> op = backend.norm_conv_by(kernels, p, settings);
    if (op == nullptr) continue;
    contestants.push_back({kernels, {[&m, &norm, op] {
                             const NormMemory memory = norm.memory();
                             op->forward({}, {m.in(m.x), memory, m.w.span(), m.b.span(), m.dx.span(), m.out(m.y)});
                             op->backward({m.in(m.x), m.out(m.dy), memory, m.w.span(), m.dx.span(),
                                           norm.arenas[6].span(), norm.arenas[7].span(), m.dw.span(), m.db.span()});
                           }}});
  }
  return contestants;
}

std::vector<Contestant> conv_pool_contestants(CpuBackend& backend, const ConvProblem& p, Memory& m,
                                              std::vector<std::uint8_t>& winner) {
  std::vector<Contestant> contestants;
  for (const std::string& kernels : backend.kernels_of(p)) {
    const std::shared_ptr<ConvPoolOp> op = backend.conv_pool_by(kernels, p);
    if (op == nullptr) continue;
    contestants.push_back({kernels, {[&m, &winner, op] {
                             op->forward(m.in(m.x), m.w.span(), m.b.span(), m.out(m.y), winner);
                             op->backward(m.in(m.x), m.out(m.y), m.out(m.dy), winner, m.w.span(), m.dw.span(),
                                          m.db.span(), m.in(m.dx));
                           }}});
  }
  return contestants;
}

bool makes(CpuBackend& backend, const std::string& kernels, const ConvProblem& p) {
  NormSettings norm{p.geometry.in_channels};
  norm.in = p.geometry.in;
  switch (p.kind) {
    case ConvProblem::Kind::norm_conv: return backend.norm_conv_by(kernels, p, norm) != nullptr;
    case ConvProblem::Kind::conv_pool: return backend.conv_pool_by(kernels, p) != nullptr;
    case ConvProblem::Kind::conv:
    case ConvProblem::Kind::dense: return backend.weighted_by(kernels, p) != nullptr;
  }
  return false;
}

}  // namespace

bool has_kernels(Backend& backend, const ConvProblem& problem, const KernelChoice& choice) {
  auto* const cpu = dynamic_cast<CpuBackend*>(&backend);
  if (cpu == nullptr) return false;
  const std::vector<std::string> offered = cpu->kernels_of(problem);
  std::istringstream names(choice.kernels);
  for (std::string name; names >> name;)  // what is not offered, but serves: of a processor with fewer instructions
    if (std::ranges::find(offered, name) == offered.end() && !makes(*cpu, name, problem)) return false;
  return true;
}

bool worth_timing(const ConvProblem& problem) {
  constexpr double least_flop = 1e6;
  return flop_of_row(problem) * static_cast<double>(problem.rows) >= least_flop;
}

/// As many rows for every thread; not more, because a network has many convolutions. Of large samples one is enough
/// where threads share it. What a dense layer does with its weights takes as long for one row as for all, so its trial
/// has many.
Index rows_in_trial(const ConvProblem& p) {
  const Index threads = p.threads;
  const double of_thread = p.kind == ConvProblem::Kind::dense ? 7e8 : threads > 1 ? 2e8 : 4e8;  // flop
  const Index enough = static_cast<Index>(std::min(of_thread * static_cast<double>(threads) / flop_of_row(p), 1e6));
  const Index shares = shares_of_row(p), least = (threads + shares - 1) / shares;
  return std::min(p.rows, enough >= threads ? enough / threads * threads : std::max(enough, least));
}

namespace {

/// The kernels that the backend takes without a choice, not timed.
KernelChoice fixed_choice(CpuBackend& backend, const ConvProblem& p) {
  for (const std::string& kernels : backend.kernels_of(p))
    if (makes(backend, kernels, p)) return {kernels};
  return {};
}

}  // namespace

std::optional<KernelChoice> time_kernels(Backend& backend, const ConvProblem& whole) {
  auto* const cpu = dynamic_cast<CpuBackend*>(&backend);
  constexpr double most = 1.5e9;  // flop of a pass over one row, for each thread: no trial of more ends in its time
  if (cpu == nullptr || whole.threads != cpu->threads()) return std::nullopt;
  if (!worth_timing(whole) || cpu->kernels_of(whole).size() == 1) return fixed_choice(*cpu, whole);
  const ConvProblem problem = with_fewer_positions(whole);
  constexpr Index most_weights = Index{1} << 27;  // the trial's own, beside the network's
  if (flop_of_row(problem) > most * problem.threads || problem.geometry.weights() > most_weights) return std::nullopt;
  Extent to = problem.geometry.out();
  for (std::size_t a = 0; a < to.size(); ++a) to[a] /= problem.window[a];
  // Contestants get a backend of their own, so that the run does not keep the scratch of kernels that it does not use.
  CpuBackend trial(cpu->threads(), cpu->precision());
  Memory memory(problem, rows_in_trial(problem), to);
  NormArenas norm(problem.geometry.in_channels);
  std::vector<std::uint8_t> winners(memory.y.size());
  std::vector<Contestant> contestants;
  switch (problem.kind) {
    case ConvProblem::Kind::conv:
    case ConvProblem::Kind::dense: contestants = weighted_contestants(trial, problem, memory); break;
    case ConvProblem::Kind::norm_conv: contestants = norm_conv_contestants(trial, problem, memory, norm); break;
    case ConvProblem::Kind::conv_pool: contestants = conv_pool_contestants(trial, problem, memory, winners); break;
  }
  if (contestants.empty()) return std::nullopt;
  if (contestants.size() == 1) return KernelChoice{contestants.front().kernels};
  OtherNumbers others(whole, whole.geometry.out());
  return choice_of(std::move(contestants), std::ref(others));
}

}  // namespace mrmf::cpu
