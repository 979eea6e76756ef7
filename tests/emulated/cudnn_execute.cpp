#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "tests/emulated/cudnn_convolution.hpp"
#include "tests/emulated/settings.hpp"

namespace mrmf::emulated::dnn {
namespace {

/// Calls visit(offset in elements, index in (n, spatial..., c) order) for every element of a tensor.
template <class Visit>
void each_element(const Tensor& t, Visit visit) {
  const std::size_t axes = t.dims.size();
  std::vector<std::int64_t> at(axes, 0);  // at[1], the channel, runs in the inner loop
  std::size_t index = 0;
  for (;;) {
    std::int64_t base = 0;
    for (std::size_t i = 0; i < axes; ++i) base += at[i] * t.strides[i];
    for (std::int64_t c = 0; c < t.dims[1]; ++c) visit(static_cast<std::size_t>(base + c * t.strides[1]), index++);
    std::size_t i = axes;
    while (i-- > 0) {
      if (i == 1) continue;
      if (++at[i] < t.dims[i]) break;
      at[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

Values read(const Tensor& t, const void* data, Rounding rounding) {
  Values values(t.count());
  each_element(t, [&](std::size_t offset, std::size_t index) {
    values[index] = static_cast<double>(rounded(load(data, offset, t.element()), rounding));
  });
  return values;
}

void write(const Tensor& t, const Values& values, void* data) {
  each_element(t, [&](std::size_t offset, std::size_t index) { store(data, offset, t.element(), values[index]); });
}

/// Values of `from` spread to the shape of `to` (axes of length one repeat).
Values broadcast_to(const Tensor& from, const Values& values, const Tensor& to) {
  if (from.dims == to.dims) return values;
  Tensor view = to;  // read `from` with stride 0 along the repeated axes
  std::int64_t stride = from.dims[1];
  for (std::size_t i = from.dims.size(); i-- > 0;) {
    if (i == 1) continue;
    view.strides[i] = from.dims[i] == 1 ? 0 : stride;
    stride *= from.dims[i];
  }
  view.strides[1] = from.dims[1] == 1 ? 0 : 1;
  Values result(to.count());
  each_element(view, [&](std::size_t offset, std::size_t index) { result[index] = values[offset]; });
  return result;
}

/// One run of a graph; virtual tensors live in `kept`.
class Execution {
 public:
  Execution(const Graph& graph, const Engine& engine, const Pointers& pointers)
      : graph_(graph), engine_(engine), pointers_(pointers) {
    if (engine.tensor_core) rounding_ = engine.down_converts ? Rounding::bf16 : Rounding::tf32;
  }

  void run() {
    if (const std::int64_t bytes = workspace_of(engine_, graph_))
      std::memset(pointers_.workspace, 0xa5, static_cast<std::size_t>(bytes));
    for (const Operation& operation : graph_.operations) {
      Values result = operation.is_convolution()
                          ? convolve(graph_, operation, input(operation.x, rounding_), input(operation.b, rounding_))
                          : pointwise(operation);
      if (operation.is_convolution()) disturb(result);
      output(operation.y, std::move(result));
    }
  }

 private:
  Values input(std::int64_t uid, Rounding rounding) const {
    const Tensor& tensor = graph_.tensor(uid);
    if (tensor.is_virtual) return kept_.at(uid);
    return read(tensor, data(tensor), rounding);
  }

  Values pointwise(const Operation& operation) const {
    Values values = input(operation.x, Rounding::none);
    if (operation.kind == Kind::add) {
      const Tensor& b = graph_.tensor(operation.b);
      const Values added = broadcast_to(b, input(operation.b, Rounding::none), graph_.tensor(operation.x));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += added[i];
    }
    if (operation.kind == Kind::relu)
      for (double& value : values) value = value > 0 ? value : operation.slope * value;
    return values;
  }

  /// The planted faults of an engine: wrong values, or last bits that change from run to run.
  void disturb(Values& values) const {
    static std::atomic<unsigned> runs{0};
    const double noise = runs++ % 2 ? 1.5e-7 : -1.5e-7;
    if (engine_.nondeterministic)
      for (std::size_t i = 0; i < values.size(); i += 3) values[i] *= 1 + noise;
    if (engine_.wrong || all_engines_wrong() || (wrong_bias() && graph_.operations.size() > 1))
      for (std::size_t i = 0; i < values.size(); i += 5) values[i] *= 1.0625;
  }

  void output(std::int64_t uid, Values values) {
    const Tensor& tensor = graph_.tensor(uid);
    if (!tensor.is_virtual) return write(tensor, values, data(tensor));
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
    kept_[uid] = std::move(values);
  }

  void* data(const Tensor& tensor) const {
    return pointers_.data[static_cast<std::size_t>(&tensor - graph_.tensors.data())];
  }

  const Graph& graph_;
  const Engine& engine_;
  const Pointers& pointers_;
  Rounding rounding_ = Rounding::none;
  std::map<std::int64_t, Values> kept_;
};

}  // namespace

double multiply_adds(const Graph& graph) {
  const Operation* const convolution = graph.convolution();
  if (!convolution) return 0;
  // Of y and w forward, dy and w for dx, dy and dw for dw: each position's channels with each tap's.
  const bool forward = convolution->kind == Kind::forward, filter = convolution->kind == Kind::backward_filter;
  const Tensor& y = graph.tensor(forward ? convolution->y : filter ? convolution->b : convolution->x);
  const Tensor& w = graph.tensor(filter ? convolution->y : convolution->b);
  return static_cast<double>(y.count()) * static_cast<double>(w.count()) / static_cast<double>(w.dims[0]);
}

void execute(const Graph& graph, const Engine& engine, const Pointers& pointers) {
  Execution(graph, engine, pointers).run();
}

}  // namespace mrmf::emulated::dnn
