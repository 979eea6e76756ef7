// Dense layers by cuBLASLt's matrix products.
#include <cublasLt.h>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/conv_plan_trial_and_choice.hpp"
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/module.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cuda {
namespace {

/// D(rows, columns) = op(A)(rows, inner) op(B)(inner, columns) [+ bias(rows)] in cuBLAS's column-major order: the first
/// index runs fastest. Matrices are packed.
struct MatmulProblem {
  Index rows = 0, columns = 0, inner = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;          ///< in the storage type, one value per row of D
  bool float_result = false;  ///< D in float32, else in the storage type as A and B
};

/// One matrix product with a fixed shape, algorithm and workspace.
class Matmul {
 public:
  /// FaultError when cuBLASLt has no algorithm for the product.
  Matmul(Device& device, const MatmulProblem& problem);

  /// Device memory of the factors, the bias (null without one) and the result.
  struct Operands {
    const void *a, *b, *bias;
    void* d;
  };
  void run(const Operands& on) const;

 private:
  struct DestroyMatmul {
    void operator()(cublasLtMatmulDesc_t p) const { cublasLtMatmulDescDestroy(p); }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t p) const { cublasLtMatrixLayoutDestroy(p); }
  };
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
  void describe(const MatmulProblem& problem);
  std::vector<cublasLtMatmulHeuristicResult_t> proposals(int most) const;
  void choose(const MatmulProblem& problem);
  void run(const Operands& on, const cublasLtMatmulHeuristicResult_t& way, void* workspace) const;

  Device& device_;
  std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyMatmul> product_;
  Layout a_, b_, d_;
  cublasLtMatmulHeuristicResult_t way_{};
  bool bias_;
};

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  MRMF_CUBLAS(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)));
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  MRMF_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
}

cublasLtMatrixLayout_t layout(cudaDataType_t type, Index rows, Index columns) {
  cublasLtMatrixLayout_t result = nullptr;
  MRMF_CUBLAS(cublasLtMatrixLayoutCreate(&result, type, static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns), rows));
  return result;
}

Matmul::Matmul(Device& device, const MatmulProblem& problem) : device_(device), bias_(problem.bias) {
  describe(problem);
  choose(problem);
  device.reserve(Device::Scratch::workspace, way_.workspaceSize);
}

void Matmul::describe(const MatmulProblem& problem) {
  const Settings& settings = device_.settings();
  const cudaDataType_t type = settings.precision == Precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute =
      settings.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t product = nullptr;
  MRMF_CUBLAS(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F));
  product_.reset(product);
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(problem.transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(problem.transpose_b));
  if (problem.bias) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    const void* placeholder = device_.step();  // choosing an algorithm needs some pointer; run() sets the real one
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, placeholder);
  }
  a_.reset(problem.transpose_a ? layout(type, problem.inner, problem.rows) : layout(type, problem.rows, problem.inner));
  b_.reset(problem.transpose_b ? layout(type, problem.columns, problem.inner)
                               : layout(type, problem.inner, problem.columns));
  d_.reset(layout(problem.float_result ? CUDA_R_32F : type, problem.rows, problem.columns));
}

std::vector<cublasLtMatmulHeuristicResult_t> Matmul::proposals(int most) const {
  cublasLtMatmulPreference_t created = nullptr;
  MRMF_CUBLAS(cublasLtMatmulPreferenceCreate(&created));
  const Preference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, device_.settings().workspace);
  constexpr std::uint32_t alignment = 16;  // bytes: layers' spans in the arenas and stored activations have it
  for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, operand, alignment);
  // In-place reduction of split sums uses atomics, whose order differs from run to run.
  if (device_.settings().deterministic)
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t proposed =
      cublasLtMatmulAlgoGetHeuristic(device_.cublas(), product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                     preference.get(), most, found.data(), &count);
  if (proposed == CUBLAS_STATUS_NOT_SUPPORTED) return {};  // so cuBLASLt says that it has none
  MRMF_CUBLAS(proposed);
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

std::string text_of(const MatmulProblem& problem) {
  return fmt::format("a product of {} x {} by {} x {}", problem.rows, problem.inner, problem.inner, problem.columns);
}

// The fastest of the first eight; deterministic runs take the first, as of convolutions. Products are not looked at
// here: cuBLASLt's have not been seen wrong, and their layers' tests are.
void Matmul::choose(const MatmulProblem& problem) {
  const std::vector<cublasLtMatmulHeuristicResult_t> ways = proposals(device_.settings().deterministic ? 1 : 8);
  if (ways.empty())
    throw FaultError(fmt::format("cuBLASLt has no algorithm for {} in {} MB of workspace", text_of(problem),
                                 device_.settings().workspace >> 20));
  way_ = ways.front();
  if (ways.size() == 1) return;
  const auto bytes = [](Index elements) { return static_cast<std::size_t>(elements) * sizeof(float); };  // at most
  const std::size_t of_a = bytes(problem.rows * problem.inner), of_b = bytes(problem.inner * problem.columns),
                    of_d = bytes(problem.rows * problem.columns), of_bias = bytes(problem.rows);
  if (of_a + of_b + of_d + of_bias + device_.settings().workspace > device_.free_memory() / 2)
    return;  // no room to try
  const DeviceBuffer a(of_a), b(of_b), d(of_d), bias(of_bias);
  for (const DeviceBuffer* each : {&a, &b, &bias})
    MRMF_CUDA(cudaMemsetAsync(each->get(), 0x3c, each->bytes(), device_.stream()));  // small numbers, in both types
  double best = std::numeric_limits<double>::infinity();
  std::string mistake;
  for (const cublasLtMatmulHeuristicResult_t& way : ways) {
    const DeviceBuffer workspace(way.workspaceSize);
    const TimedWork work{[&](std::size_t) { run({a.get(), b.get(), bias.get(), d.get()}, way, workspace.get()); }};
    const Verdict tried = attempt([&] { return Verdict{"", run_seconds(device_.stream(), work, best)}; });
    if (tried.mistake.empty()) {
      if (tried.seconds < best) best = tried.seconds, way_ = way;
      continue;
    }
    mistake = tried.mistake;
    if (device_.is_lost())
      throw FaultError(fmt::format("cuBLASLt left {} unusable at {}: {}", device_.name(), text_of(problem), mistake));
  }
  if (best == std::numeric_limits<double>::infinity())
    throw FaultError(fmt::format("no algorithm of cuBLASLt computes {}: {}", text_of(problem), mistake));
}

void Matmul::run(const Operands& on, const cublasLtMatmulHeuristicResult_t& way, void* workspace) const {
  if (bias_) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, on.bias);
  const float one = 1, zero = 0;
  MRMF_CUBLAS(cublasLtMatmul(device_.cublas(), product_.get(), &one, on.a, a_.get(), on.b, b_.get(), &zero, on.d,
                             d_.get(), on.d, d_.get(), &way.algo, workspace, way.workspaceSize, device_.stream()));
}

void Matmul::run(const Operands& on) const {
  const Device::Lease workspace = device_.lease(Device::Scratch::workspace);
  run(on, way_, workspace.get());
}

/// y(n, out) = x(n, in) w(out, in)^T + b. With the first index running fastest, cuBLAS sees y as out x n, x as in x n
/// and w as in x out.
class Dense final : public WeightedOp {
 public:
  Dense(Device& device, Index in, Index out, Index max_rows)
      : device_(device),
        in_(in),
        out_(out),
        stored_in_(device.storage().channels(in)),
        stored_out_(device.storage().channels(out)),
        as_is_(!device.storage().bf16 && stored_in_ == in && stored_out_ == out) {
    const auto bytes = [](Index count, Index element) { return static_cast<std::size_t>(count * element); };
    if (!as_is_) {
      weights_ = DeviceBuffer(bytes(stored_in_ * stored_out_, device.storage().bytes()));
      bias_ = DeviceBuffer(bytes(stored_out_, device.storage().bytes()));
    }
    if (stored_in_ != in || stored_out_ != out) gradient_ = DeviceBuffer(bytes(stored_in_ * stored_out_, 4));
    device.reserve(Device::Scratch::sums, channel_sums_bytes(device.storage(), max_rows, out));
  }

  void prepare(Index rows) override { products(rows); }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    current_ = w.data();
    const void* bias = b.data();
    if (!as_is_) {
      pack_weights(device_.work(), {out_, 1, in_}, w.data(), weights_.get());
      import_activation(device_.work(), Shape{.n = 1, .channels = out_}, {1, 1, 1}, b.data(), bias_.get());
      current_ = weights_.get();
      bias = bias_.get();
    }
    products(x.shape.n).forward.run({current_, x.data.data(), bias, y.data.data()});
  }
  void backward_data(ConstTensor dy, ConstSpan, Tensor dx) override {
    products(dy.shape.n).data.run({current_, dy.data.data(), nullptr, dx.data.data()});
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    float* const result = gradient_.bytes() > 0 ? gradient_.get<float>() : dw.data();
    products(x.shape.n).weights.run({x.data.data(), dy.data.data(), nullptr, result});
    if (gradient_.bytes() > 0) unpack_weights(device_.work(), {out_, 1, in_}, result, dw.data());
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    channel_sums(device_.work(), dy.shape.n, out_, dy.data.data(), db.data(), sums.get());
  }

 private:
  struct Products {
    Matmul forward, data, weights;
  };
  Products& products(Index rows) {
    const auto found = products_.find(rows);
    if (found != products_.end()) return found->second;
    MatmulProblem forward{.rows = stored_out_, .columns = rows, .inner = stored_in_, .transpose_a = true, .bias = true};
    MatmulProblem data{.rows = stored_in_, .columns = rows, .inner = stored_out_};
    MatmulProblem weights{
        .rows = stored_in_, .columns = stored_out_, .inner = rows, .transpose_b = true, .float_result = true};
    return products_.emplace(rows, Products{Matmul(device_, forward), Matmul(device_, data), Matmul(device_, weights)})
        .first->second;
  }

  Device& device_;
  Index in_, out_, stored_in_, stored_out_;
  bool as_is_;                              // products read the parameters directly: float32, no padding
  DeviceBuffer weights_, bias_, gradient_;  // packed; gradient_ is of the padded weights, float32
  const void* current_ = nullptr;           // the weights of the last forward, as the products read them
  std::map<Index, Products> products_;
};

}  // namespace

std::unique_ptr<WeightedOp> CudaBackend::dense(Index in, Index out, Index max_rows) {
  return std::make_unique<Dense>(device_, in, out, max_rows);
}

}  // namespace mrmf::cuda
