// Common parts of operations on oneDNN: engine and stream, threads, aligned memory, primitives with their memories, and
// the three passes of layers with weights. For each primitive, only its descriptors (primitives.cpp) tell oneDNN 2 from
// 3.
#pragma once

#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/errors.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
using cpu::make_arena;
using cpu::ThreadScope;

using Type = dnnl::memory::data_type;

inline Desc f32(const Dims& dims, Tag tag) { return {dims, Type::f32, tag}; }

/// Memory for one call at a time, as large as the largest wants. No call finds its old values.
class SharedMemory {
 public:
  void reserve(std::size_t bytes) {
    const auto floats = static_cast<Index>((bytes + sizeof(float) - 1) / sizeof(float));
    if (floats > std::ssize(arena_.span())) arena_ = make_arena(floats);
  }
  float* data() { return arena_.span().data(); }

 private:
  Arena arena_;
};

class Context {
 public:
  /// Primitives are made and run with at most this many threads.
  explicit Context(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}
  int threads() const { return threads_; }
  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }
  SharedMemory& scratch() const { return *scratch_; }  ///< scratch of the running primitive
  SharedMemory& packed() const { return *packed_; }    ///< weights in the running primitive's layout
  /// The running primitive's first and second activations, in bf16.
  SharedMemory& rounded(std::size_t i) const { return rounded_->at(i); }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<SharedMemory> scratch_ = std::make_unique<SharedMemory>();
  std::unique_ptr<SharedMemory> packed_ = std::make_unique<SharedMemory>();
  std::unique_ptr<std::array<SharedMemory, 2>> rounded_ = std::make_unique<std::array<SharedMemory, 2>>();
};

/// Makes scratchpads our own memory: otherwise the library would allocate one for every primitive.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// A primitive with its memory objects, made once; a call only sets addresses. It is made and called within a
/// ThreadScope and refuses to run with another number of threads than it was made for.
class Bound {
 public:
  Bound() = default;
  template <class PrimitiveDesc>
  Bound(const Context& context, const PrimitiveDesc& pd, std::vector<std::pair<int, Desc>> arguments)
      : Bound(context, dnnl::primitive(pd.get()), std::move(arguments)) {
    bind(context, DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
    context.scratch().reserve(pd.scratchpad_desc().get_size());
  }

  void operator()(const Context& context, std::initializer_list<const float*> addresses) {
    (*this)(context, std::span<const float* const>(addresses.begin(), addresses.size()));
  }
  /// Takes the addresses in the order of the constructor's arguments.
  void operator()(const Context& context, std::span<const float* const> addresses) {
    MRMF_CHECK(omp_get_max_threads() == threads_ && cpu::granted_threads(threads_) == threads_,
               "a primitive made for " + std::to_string(threads_) + " threads would run with other ones");
    std::size_t i = 0;
    for (const float* address : addresses)  // the library has no const handles; inputs are only read
      set_address(i++, const_cast<float*>(address));
    set_address(i, context.scratch().data());
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), context.stream().get(),
                                                   static_cast<int>(arguments_.size()), arguments_.data()),
                            "oneDNN could not execute a primitive");
    dnnl::error::wrap_c_api(dnnl_stream_wait(context.stream().get()), "oneDNN failed in a primitive");
  }

 private:
  Bound(const Context& context, dnnl::primitive primitive, const std::vector<std::pair<int, Desc>>& arguments)
      : primitive_(std::move(primitive)) {
    for (const auto& [index, desc] : arguments) bind(context, index, desc);
  }
  void bind(const Context& context, int index, const Desc& desc) {
    memories_.push_back(dnnl::memory(desc, context.engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({index, memories_.back().get()});
  }

  void set_address(std::size_t i, float* address) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memories_[i].get(), address),
                            "oneDNN refused a memory address");
  }

  int threads_ = omp_get_max_threads();
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // memories of the arguments, then the scratchpad
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// plain: the project's layout for everything. channels_last: the project's layout for activations, while the primitive
/// chooses that of the weights. any: the primitive chooses every layout.
enum class Layout { plain, channels_last, any };

/// What a primitive reads and writes. Gradients take the places of the tensors that they are of.
struct TensorTypes {
  Type src = Type::f32, weights = Type::f32, dst = Type::f32;
};

/// A convolution's geometry in oneDNN's terms: logical order n, c, spatial; leading unit axes dropped.
struct ConvDescs {
  Desc src, weights, plain_weights, bias, dst;  ///< bias: zero where there is none
  Dims strides, dilates, pad_before, pad_after;
};
ConvDescs describe_conv(const ConvGeometry& geometry, Index rows, Layout layout, const TensorTypes& types = {});
/// `forward`: that of the same layer.
dnnl::convolution_forward::primitive_desc describe_forward(const Context& c, const ConvDescs& d);
dnnl::convolution_backward_data::primitive_desc describe_backward_data(const Context& c, const ConvDescs& d,
                                                                       const ConvDescs& forward);
dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const Context& c, const ConvDescs& d,
                                                                             const ConvDescs& forward);

struct DenseDescs {
  Desc src, weights, plain_weights, bias, dst;
};
DenseDescs describe_dense(Index in, Index out, Index rows, Layout layout, const TensorTypes& types = {});
dnnl::inner_product_forward::primitive_desc describe_forward(const Context& c, const DenseDescs& d);
dnnl::inner_product_backward_data::primitive_desc describe_backward_data(const Context& c, const DenseDescs& d,
                                                                         const DenseDescs& forward);
dnnl::inner_product_backward_weights::primitive_desc describe_backward_weights(const Context& c, const DenseDescs& d,
                                                                               const DenseDescs& forward);

enum class Direction { pack, unpack };  ///< weights are read, or written

/// One direction of a layer with weights (forward, backward data, backward weights) as oneDNN runs it: the primitive
/// and, if it wants weights in its own layout or in bf16, the reorder to or from the project's; the same for
/// activations in bf16. Kept per number of rows and threads.
class Pass {
 public:
  template <class PrimitiveDesc>
  Pass(const Context& context, const PrimitiveDesc& pd, const Desc& packed, const Desc& plain, Direction direction,
       std::vector<std::pair<int, Desc>> arguments)
      : run_(context, pd, std::move(arguments)) {
    if (packed == plain) return;
    reorder_.emplace(direction == Direction::pack ? reorder(context, plain, packed) : reorder(context, packed, plain));
    context.packed().reserve(packed.get_size());
  }

  /// The primitive reads its next activations, of which there are at most two, as `read`, if that is another type.
  void read_as(const Context& context, const Desc& stored, const Desc& read) {
    std::optional<Bound>& round = round_.at(activations_);
    if (stored != read) {
      round.emplace(reorder(context, stored, read));
      context.rounded(activations_).reserve(read.get_size());
    }
    ++activations_;
  }
  /// Activations as the primitive reads them, by their number.
  const float* read(const Context& context, std::size_t number, const float* stored) {
    std::optional<Bound>& round = round_.at(number);
    if (!round) return stored;
    float* const rounded = context.rounded(number).data();
    (*round)(context, {stored, rounded});
    return rounded;
  }

  /// Calls run(bound, weights) with the weights in the primitive's layout.
  template <class Run>
  void with_packed(const Context& context, const float* plain, const Run& run) {
    if (reorder_) (*reorder_)(context, {plain, context.packed().data()});
    run(run_, reorder_ ? context.packed().data() : plain);
  }
  /// Calls run(bound, weights), which writes the weights, then brings them into the project's layout.
  template <class Run>
  void then_unpack(const Context& context, float* plain, const Run& run) {
    run(run_, reorder_ ? context.packed().data() : plain);
    if (reorder_) (*reorder_)(context, {context.packed().data(), plain});
  }

 private:
  static Bound reorder(const Context& context, const Desc& from, const Desc& to) {
    return {context, dnnl::reorder::primitive_desc(context.engine(), from, context.engine(), to, user_scratchpad()),
            std::vector<std::pair<int, Desc>>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  }

  Bound run_;
  std::optional<Bound> reorder_;
  std::array<std::optional<Bound>, 2> round_;
  std::size_t activations_ = 0;
};

/// The passes of one direction, by the number of rows and the number of threads of a parallel region here.
class Passes {
 public:
  template <class Make>
  Pass& at(Index rows, Index max_rows, const Make& make) {
    const std::pair key(rows, omp_get_max_threads());
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    MRMF_CHECK(rows >= 1 && rows <= max_rows,
               "the operation was built for " + std::to_string(max_rows) + " rows and got " + std::to_string(rows));
    return made_.emplace(key, make()).first->second;
  }

 private:
  std::map<std::pair<Index, int>, Pass> made_;
};

/// Arguments of a primitive, the bias or its gradient last, where the layer has one.
inline std::vector<std::pair<int, Desc>> with_bias(std::vector<std::pair<int, Desc>> arguments,
                                                   const std::pair<int, Desc>& bias) {
  if (!bias.second.is_zero()) arguments.push_back(bias);
  return arguments;
}

/// The common part of convolution and dense layers: three passes around weights, each prepared per number of rows and
/// threads. Describe: rows and TensorTypes -> ConvDescs or DenseDescs. `factors`: the type of what is multiplied; sums,
/// results and gradients of weights are float32.
template <class Describe>
class Weighted final : public WeightedOp {
 public:
  Weighted(const Context& context, Index max_rows, Type factors, Describe describe)
      : context_(context), max_rows_(max_rows), factors_(factors), describe_(std::move(describe)) {}

  void prepare(Index rows) override {
    const ThreadScope threads(context_.threads());
    forward_pass(rows), data_pass(rows), weights_pass(rows);
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    const ThreadScope threads(context_.threads());
    Pass& pass = forward_pass(x.shape.n);
    pass.with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run_with_bias(run, {pass.read(context_, 0, x.data.data()), packed, y.data.data()}, b);
    });
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    const ThreadScope threads(context_.threads());
    Pass& pass = data_pass(dy.shape.n);
    pass.with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run(context_, {pass.read(context_, 0, dy.data.data()), packed, dx.data.data()});
    });
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    const ThreadScope threads(context_.threads());
    Pass& pass = weights_pass(x.shape.n);
    pass.then_unpack(context_, dw.data(), [&](Bound& run, float* packed) {
      run_with_bias(run, {pass.read(context_, 0, x.data.data()), pass.read(context_, 1, dy.data.data()), packed}, db);
    });
  }

 private:
  void run_with_bias(Bound& run, const std::array<const float*, 3>& others, ConstSpan bias) const {
    const std::array<const float*, 4> all{others[0], others[1], others[2], bias.data()};
    run(context_, std::span(all).first(bias.empty() ? 3 : 4));
  }

  Pass& forward_pass(Index rows) {
    return forward_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows, TensorTypes{factors_, factors_, Type::f32});
      const auto pd = describe_forward(context_, d);
      Pass pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                with_bias({{DNNL_ARG_SRC, d.src}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, d.dst}},
                          {DNNL_ARG_BIAS, d.bias}));
      pass.read_as(context_, stored(rows).src, d.src);
      return pass;
    });
  }
  Pass& data_pass(Index rows) {
    return backward_data_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows, TensorTypes{Type::f32, factors_, factors_});
      const auto pd = describe_backward_data(context_, d, of_factors(rows));
      Pass pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                {{DNNL_ARG_DIFF_DST, d.dst}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, d.src}});
      pass.read_as(context_, stored(rows).dst, d.dst);
      return pass;
    });
  }
  Pass& weights_pass(Index rows) {
    return backward_weights_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows, TensorTypes{factors_, Type::f32, factors_});
      const auto pd = describe_backward_weights(context_, d, of_factors(rows));
      Pass pass(
          context_, pd, pd.diff_weights_desc(), d.plain_weights, Direction::unpack,
          with_bias(
              {{DNNL_ARG_SRC, d.src}, {DNNL_ARG_DIFF_DST, d.dst}, {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}},
              {DNNL_ARG_DIFF_BIAS, d.bias}));
      pass.read_as(context_, stored(rows).src, d.src);
      pass.read_as(context_, stored(rows).dst, d.dst);
      return pass;
    });
  }
  auto stored(Index rows) const { return describe_(rows, TensorTypes{}); }
  auto of_factors(Index rows) const { return describe_(rows, TensorTypes{factors_, factors_, factors_}); }

  const Context& context_;
  Index max_rows_;
  Type factors_;
  Describe describe_;
  Passes forward_, backward_data_, backward_weights_;
};

template <class Describe>
std::unique_ptr<WeightedOp> make_weighted(const Context& context, Index max_rows, Factors factors, Describe describe) {
  const Type type = factors == Factors::bf16 ? Type::bf16 : Type::f32;
  return std::make_unique<Weighted<Describe>>(context, max_rows, type, std::move(describe));
}

}  // namespace mrmf::onednn
