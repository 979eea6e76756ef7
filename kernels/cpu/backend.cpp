// The CPU backend: its threads and precision, and which kernels its convolutions and dense layers get, of our own or
// oneDNN's.
#include "kernels/cpu/backend.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/skipping_dense.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf {

namespace cpu {
namespace {

/// How many threads compute: counted in a parallel region, which starts them. OMP_THREAD_LIMIT and a region around this
/// one may leave fewer than were asked for.
int start_threads(int wanted) {
  const ThreadScope threads(wanted);
  int granted = 1;
#pragma omp parallel
#pragma omp single
  granted = omp_get_num_threads();
  return granted;
}

}  // namespace

CpuBackend::CpuBackend(int threads, Precision precision, std::optional<KernelChoices> choices)
    : instruction_set_(describe_instruction_set()),
      precision_(precision),
      wanted_(threads > 0 ? threads : omp_get_max_threads()),
      threads_(start_threads(wanted_)),
      workspace_(std::make_shared<Workspace>(threads_)),
      context_(onednn::make_context(threads_)),
      choices_(std::move(choices)) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

CpuBackend::~CpuBackend() = default;

bool CpuBackend::in_bf16() const { return precision_ == Precision::bf16 && has_bf16_products(); }

bool CpuBackend::onednn_in_bf16() const { return in_bf16() && onednn::has_bf16_products(); }

std::string CpuBackend::description() const {
  const std::string products = precision_ != Precision::bf16 ? ""
                               : in_bf16()                   ? ", products in bf16"
                                                             : ", all in float32 (no products in bf16 here)";
  return "oneDNN " + onednn::version() + ", own kernels for " + instruction_set_ + (has_amx() ? " and AMX" : "") +
         products + ", threads: " + std::to_string(threads_) +
         (threads_ < wanted_ ? " (OpenMP grants no more of " + std::to_string(wanted_) + ")" : "");
}

std::unique_ptr<Backend> make_choosing_backend(int threads, Precision precision, KernelChoices choices) {
  require_threads(threads);
  return std::make_unique<CpuBackend>(threads, precision, std::move(choices));
}

bool rounds_to_bf16(const Backend& backend) {
  const auto* const cpu = dynamic_cast<const CpuBackend*>(&backend);
  return cpu != nullptr && cpu->in_bf16();
}

KernelChoices* kernel_choices(Backend& backend) {
  auto* const cpu = dynamic_cast<CpuBackend*>(&backend);
  return cpu != nullptr ? cpu->choices() : nullptr;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, Precision precision) {
  cpu::require_threads(threads);
  return std::make_unique<cpu::CpuBackend>(threads, precision);
}

std::unique_ptr<Backend> make_one_thread_backend(const Backend& like) {
  const auto* const fast = dynamic_cast<const cpu::CpuBackend*>(&like);
  if (fast == nullptr) return make_reference_backend();
  return make_cpu_backend(1, fast->precision());
}

}  // namespace mrmf

namespace mrmf::cpu {

// Layers with weights: where the CPU backend chooses between kernels of its own and oneDNN's primitives.

namespace {

/// A convolution or a dense layer with kernels of its own for each pass. Passes may share them.
class WeightedByPass final : public WeightedOp {
 public:
  using Shared = std::shared_ptr<WeightedOp>;
  explicit WeightedByPass(std::array<Shared, 3> passes) : passes_(std::move(passes)) {}

  void prepare(Index rows) override {
    for (std::size_t p = 0; p < passes_.size(); ++p)
      if (std::find(passes_.begin(), passes_.begin() + p, passes_[p]) == passes_.begin() + p) passes_[p]->prepare(rows);
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { passes_[0]->forward(x, w, b, y); }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override { passes_[1]->backward_data(dy, w, dx); }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    passes_[2]->backward_weights(x, dy, dw, db);
  }
  const std::array<Shared, 3>& passes() const { return passes_; }

 private:
  std::array<Shared, 3> passes_;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The pooling, by windows that neither overlap nor leave gaps.
PoolGeometry pooling_of(const ConvProblem& p) {
  PoolGeometry pool{PoolKind::max, p.geometry.out_channels, p.geometry.out()};
  pool.window = pool.stride = p.window;
  return pool;
}

std::optional<DirectKernels> direct_kernels(const std::string& name) {
  using Algorithm = DirectKernels::Algorithm;
  const bool wide = name.ends_with("512");
  if (name == "amx") return DirectKernels{Algorithm::amx, InstructionSet::avx512};
  if (name == "amx_winograd") return DirectKernels{Algorithm::amx_winograd, InstructionSet::avx512};
  if (name == "amx_bf16") return DirectKernels{Algorithm::amx_bf16, InstructionSet::avx512};
  const std::string algorithm = wide ? name.substr(0, name.size() - 3) : name;
  const InstructionSet set = wide ? InstructionSet::avx512 : std::min(InstructionSet::avx2, instruction_set());
  if (algorithm == "direct") return DirectKernels{Algorithm::plain, set};
  if (algorithm == "winograd") return DirectKernels{Algorithm::winograd, set};
  if (algorithm == "planes") return DirectKernels{Algorithm::winograd_planes, set};
  if (algorithm == "squares") return DirectKernels{Algorithm::winograd_squares, set};
  return std::nullopt;
}

/// Whether Winograd's transforms along two axes gain more than they cost over those along one.
bool deep_enough_for_planes(const ConvGeometry& c) {
  return c.kernel[0] * std::min(c.in_channels, c.out_channels) >= 48;
}

}  // namespace

// Names of kernels, in kernels.txt and in what `bench layers` prints. With "512" they are for AVX-512, else for the
// best set below.
//
//   planes        Winograd's along the last two axes (winograd_planes.inl), by tiles of two rows of four outputs
//   squares       the same by tiles of four rows: less arithmetic, and more rounding
//   winograd      Winograd's along the last axis (winograd.inl); with pooling: conv_pool_relu_winograd.inl
//   direct        plain products of ours, without im2col (direct_conv.inl)
//   amx           products on AMX of floats in three parts (direct_kernels_amx.cpp); amx_winograd: of Winograd's
//                 transforms along the axis before the last; amx_bf16: of rounded factors
//   few           for few output positions (conv_few_positions.cpp)
//   apart         batch norm, and then the convolution
//   onednn        oneDNN's primitives; onednn_bf16: with rounded factors
//   taps          the same, but for the weight gradient, which goes tap by tap (gemm_conv.cpp)
//   all_taps      all passes tap by tap, for many weights and few positions
//   plain, packed                        dense layers by oneDNN: weights as they are, or packed in each call
//   skipping      the same as plain, or in bf16 as onednn_bf16, but for gradients, which skip zeros of dy
//                 (skipping_dense.cpp)
//   generic, avx2, avx512, avx512_bf16   convolution, pooling and ReLU by plain products (conv_pool_relu.inl)
//
// Three names in a row are of forward, data gradient and weight gradient.
//
// The first that serves is the fixed one. Winograd's halve the arithmetic. Plain products of ours are as fast as
// oneDNN's in the same instruction set and need no other layout; in an older set than the processor's best they are
// slower. In the generic set ours are also the faster ones: steps of CosmoFlow and `resnet` took 0.4 of the time.
std::vector<std::string> CpuBackend::kernels_of(const ConvProblem& p) const {
  const InstructionSet set = instruction_set();
  switch (p.kind) {
    case ConvProblem::Kind::conv: break;
    case ConvProblem::Kind::norm_conv: return norm_conv_kernels_of();
    case ConvProblem::Kind::conv_pool: return conv_pool_kernels_of(p);
    case ConvProblem::Kind::dense: return dense_kernels_of(p);
  }
  const bool deep = deep_enough_for_planes(p.geometry);
  const std::string first = deep ? "planes" : "winograd", second = deep ? "winograd" : "planes";
  if (set == InstructionSet::avx512) {
    std::vector<std::string> names{"few", first + "512", second + "512", "squares512"};
    // Processors with AMX have AVX-512 of full width, beside which AVX2 gains nothing. AMX's stand behind those that
    // processors without it take, too: fixed kernels in float32 give the same bits on both.
    if (!has_amx()) names.insert(names.end(), {first, second, "squares"});
    names.push_back("direct512");
    if (has_amx()) names.insert(names.end(), {"amx", "amx_winograd"});
    if (has_amx() && in_bf16()) names.insert(names.begin() + 1, "amx_bf16");
    names.insert(names.end(), {"onednn", "taps", "all_taps"});
    // Rounding large activations for few products costs more than it gains: trials tell.
    if (onednn_in_bf16()) names.insert(names.end() - 2, "onednn_bf16");
    return names;
  }
  // oneDNN's weight gradients go through im2col below AVX-512, and are slow where a sample has few positions.
  const bool few = product(p.geometry.out()) <= p.geometry.out_channels;
  return {first, second, "squares", "direct", "few", few ? "taps" : "onednn", few ? "onednn" : "taps", "all_taps"};
}

std::vector<std::string> CpuBackend::norm_conv_kernels_of() const {
  if (instruction_set() != InstructionSet::avx512) return {"winograd", "planes", "squares", "direct", "apart"};
  std::vector<std::string> names{"winograd512", "winograd", "planes512", "squares512", "direct512"};
  if (has_amx()) names.insert(names.end(), {"amx", "amx_winograd"});
  if (has_amx() && in_bf16()) names.insert(names.begin(), "amx_bf16");
  names.push_back("apart");
  return names;
}

// Below AVX-512, Winograd's transforms cost as much as they save where an input has few channels.
std::vector<std::string> CpuBackend::conv_pool_kernels_of(const ConvProblem& p) const {
  const bool wide = instruction_set() == InstructionSet::avx512;
  std::vector<std::string> names{"winograd"};
  if (wide) names.insert(names.begin(), "winograd512");
  std::vector<std::string> plain{cpu::name(instruction_set())};
  if (wide) plain.push_back("avx2");
  if (in_bf16()) plain.insert(plain.begin(), "avx512_bf16");
  constexpr Index many_channels = 12;
  const bool first = (wide || p.geometry.in_channels >= many_channels) && !in_bf16();
  names.insert(first ? names.end() : names.begin(), plain.begin(), plain.end());
  return names;
}

// Only AVX-512's blocked products repay packing the weights in each call, and only where each weight meets many rows.
std::vector<std::string> CpuBackend::dense_kernels_of(const ConvProblem& p) const {
  constexpr Index many_rows = 256, rows_for_bf16 = 64;
  if (instruction_set() != InstructionSet::avx512) return {"plain", "skipping"};
  std::vector<std::string> names{"plain", "packed"};
  if (p.rows >= many_rows) std::swap(names[0], names[1]);
  if (onednn_in_bf16()) names.insert(p.rows >= rows_for_bf16 ? names.begin() : names.end(), "onednn_bf16");
  names.push_back("skipping512");
  return names;
}

std::unique_ptr<WeightedOp> CpuBackend::weighted_by(const std::string& kernels, const ConvProblem& p) {
  const std::vector<std::string> names = words_of(kernels);
  if (names.size() != 3) return p.kind == ConvProblem::Kind::dense ? dense_by(kernels, p) : conv_by(kernels, p);
  std::map<std::string, WeightedByPass::Shared> made;
  std::array<WeightedByPass::Shared, 3> passes;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    WeightedByPass::Shared& op = made[names[i]];
    if (op == nullptr) op = weighted_by(names[i], p);
    if (op == nullptr) return nullptr;
    passes[i] = op;
  }
  return std::make_unique<WeightedByPass>(std::move(passes));
}

std::unique_ptr<WeightedOp> CpuBackend::conv_by(const std::string& kernels, const ConvProblem& p) {
  if (const auto direct = direct_kernels(kernels)) return make_direct_conv(*direct, p.geometry, workspace_);
  if (kernels == "few") return make_few_positions(p.geometry, p.rows);
  if (kernels == "onednn") return onednn::make_conv(*context_, p.geometry, p.rows);
  if (kernels == "onednn_bf16" && onednn_in_bf16())
    return onednn::make_conv(*context_, p.geometry, p.rows, onednn::Factors::bf16);
  if (kernels == "taps")
    return onednn::with_tap_gradients(onednn::make_conv(*context_, p.geometry, p.rows), p.geometry, p.rows, workspace_);
  if (kernels == "all_taps") return onednn::make_tap_conv(p.geometry, p.rows, workspace_);
  return nullptr;
}

std::unique_ptr<WeightedOp> CpuBackend::dense_by(const std::string& kernels, const ConvProblem& p) {
  const Index in = p.geometry.in_channels, out = p.geometry.out_channels;
  using onednn::DenseWeights;
  if (kernels == "packed") return onednn::make_dense(*context_, in, out, p.rows, DenseWeights::packed);
  if (kernels == "plain") return onednn::make_dense(*context_, in, out, p.rows, DenseWeights::plain);
  if (kernels == "onednn_bf16" && onednn_in_bf16())
    return onednn::make_dense(*context_, in, out, p.rows, DenseWeights::packed, onednn::Factors::bf16);
  const InstructionSet best = instruction_set();
  const bool wide = kernels == "skipping512";
  if (kernels == "skipping" || (wide && best == InstructionSet::avx512))
    return make_skipping_dense(wide ? best : std::min(InstructionSet::avx2, best),
                               dense_by(onednn_in_bf16() ? "onednn_bf16" : "plain", p), in, out, workspace_);
  return nullptr;
}

std::unique_ptr<NormConvOp> CpuBackend::norm_conv_by(const std::string& kernels, const ConvProblem& p,
                                                     const NormSettings& settings) {
  if (const auto direct = direct_kernels(kernels))
    return make_direct_norm_conv(*direct, settings, p.geometry, workspace_);
  if (kernels == "apart") return make_norm_conv({norm(settings, p.rows), conv(p.geometry, p.rows)}, p.geometry);
  return nullptr;
}

std::unique_ptr<ConvPoolOp> CpuBackend::conv_pool_by(const std::string& kernels, const ConvProblem& p) {
  using Products = FusedKernels::Products;
  const InstructionSet best = instruction_set();
  const auto make = [&](FusedKernels of) { return make_fused_conv_pool(of, p.geometry, pooling_of(p)); };
  for (const InstructionSet set : {InstructionSet::generic, InstructionSet::avx2, InstructionSet::avx512})
    if (kernels == cpu::name(set) && set <= best) return make({set});
  if (kernels == "winograd") return make({std::min(InstructionSet::avx2, best), Products::winograd});
  if (kernels == "winograd512" && best == InstructionSet::avx512) return make({best, Products::winograd});
  if (kernels == "avx512_bf16" && in_bf16()) return make({best, Products::bf16});
  return nullptr;
}

namespace {

/// make(kernels) by what was chosen for the problem, or else by the first that serve.
template <class Make>
auto chosen_or_fixed(CpuBackend& backend, const ConvProblem& problem, const Make& make) -> decltype(make("")) {
  const KernelChoice* choice = backend.choices() != nullptr ? backend.choices()->find(problem) : nullptr;
  if (choice != nullptr)
    if (auto op = make(choice->kernels)) return op;
  for (const std::string& kernels : backend.kernels_of(problem))
    if (auto op = make(kernels)) return op;
  return nullptr;
}

}  // namespace

// Activations stay channels-last. oneDNN's weights are packed per call when a primitive wants that.
std::unique_ptr<WeightedOp> CpuBackend::conv(const ConvGeometry& geometry, Index max_rows) {
  const ConvProblem problem{ConvProblem::Kind::conv, geometry, max_rows, threads_};
  return chosen_or_fixed(*this, problem, [&](const std::string& kernels) { return weighted_by(kernels, problem); });
}

std::unique_ptr<NormConvOp> CpuBackend::norm_conv(const NormSettings& settings, const ConvGeometry& geometry,
                                                  Index max_rows) {
  const ConvProblem problem{ConvProblem::Kind::norm_conv, geometry, max_rows, threads_};
  return chosen_or_fixed(*this, problem,
                         [&](const std::string& kernels) { return norm_conv_by(kernels, problem, settings); });
}

// Offered by the shapes alone, whatever the kernels: all ranks must have the same units.
std::unique_ptr<ConvNormOp> CpuBackend::conv_norm(const ConvNorm& settings, Index max_rows) {
  if (!NormPasses::serve(settings.output)) return nullptr;
  ConvNormParts parts;
  if (settings.input) {
    parts.norm_conv = norm_conv(*settings.input, settings.conv, max_rows);
  } else {
    const std::shared_ptr<WeightedOp> op = conv(settings.conv, max_rows);
    const auto* const by_pass = dynamic_cast<const WeightedByPass*>(op.get());
    parts.conv = by_pass != nullptr ? by_pass->passes() : std::array{op, op, op};
  }
  return make_conv_norm(std::move(parts), settings);
}

std::unique_ptr<ConvPoolOp> CpuBackend::conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                                       Index max_rows) {
  if (!fused_conv_pool_serves(conv, pool)) return nullptr;
  if (!is_unpadded_line(conv) && max_rows < threads_)
    return nullptr;  // a thread has whole samples; others share planes
  const ConvProblem problem{ConvProblem::Kind::conv_pool, conv, max_rows, threads_, pool.window};
  return chosen_or_fixed(*this, problem, [&](const std::string& kernels) { return conv_pool_by(kernels, problem); });
}

std::unique_ptr<WeightedOp> CpuBackend::conv_transpose(const ConvGeometry& geometry, Index max_rows) {
  if (auto patches = onednn::make_patch_conv_transpose(geometry, workspace_)) return patches;
  return make_conv_transpose(conv(geometry, max_rows), geometry, max_rows);
}

std::unique_ptr<WeightedOp> CpuBackend::dense(Index in, Index out, Index max_rows) {
  const ConvProblem problem{ConvProblem::Kind::dense, {in, out}, max_rows, threads_};
  return chosen_or_fixed(*this, problem, [&](const std::string& kernels) { return weighted_by(kernels, problem); });
}

}  // namespace mrmf::cpu
