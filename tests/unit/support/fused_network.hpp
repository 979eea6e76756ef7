// A small network on data of its own, to compare layers in one pass with the same layers one by one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/kernel_choice.hpp"
#include "kernels/random.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/norm_step.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {

/// Its parameters and data are the same in every network of a case. The first layer's first parameters are 0 and almost
/// 0: a gamma by which nothing may be divided.
struct FusedNetwork {
  Model model;
  std::vector<float> x, dy, y, grads, state;

  FusedNetwork(Backend& backend, const Shape& in, const std::vector<LayerSpec>& layers, bool fuse)
      : model(backend, settings(in, layers, fuse)) {
    Rng rng(31);
    x = uniform(rng, static_cast<std::size_t>(in.count()), -1.0, 5.0);  // a mean that is not zero
    dy = uniform(rng, static_cast<std::size_t>(model.network().output().count()));
    for (float& value : model.params()) value = static_cast<float>(rng.uniform(-1, 1));
    model.params()[0] = 0.0F;
    model.params()[1] = 1e-6F;
  }
  static ModelSettings settings(const Shape& in, const std::vector<LayerSpec>& layers, bool fuse) {
    ModelSettings result;
    result.network = {in, in.n, layers, ""};
    name_layers(result.network.layers);
    result.fuse = fuse;
    return result;
  }

  /// Rows [first, first + rows) of the batch.
  void run(Index first, Index rows, AllReduce* ranks) {
    const Shape in = model.network().input().with_rows(rows), out = model.network().output().with_rows(rows);
    const auto slice = [&](const std::vector<float>& all, const Shape& s) {
      return ConstSpan(all).subspan(static_cast<std::size_t>(first * s.per_sample()),
                                    static_cast<std::size_t>(s.count()));
    };
    StepContext step;
    step.team_sum = ranks;
    y = copy(model.forward(step, {in, slice(x, in)}).data);
    std::ranges::copy(slice(dy, out), model.output_gradient(rows).begin());
    std::ranges::fill(model.grads(), NAN);
    model.backward(step, {in, slice(x, in)});
    grads.clear();
    for (const LayerEntry& entry : model.network().entries()) {
      const ConstSpan part = span_at(model.grads(), entry.params);
      grads.insert(grads.end(), part.begin(), part.end());
    }
    state = copy(model.state());
  }
  /// A layer's among `grads`.
  ConstSpan grads_of(std::size_t layer) const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < layer; ++i) first += static_cast<std::size_t>(model.network().entry(i).params.count);
    return ConstSpan(grads).subspan(first, static_cast<std::size_t>(model.network().entry(layer).params.count));
  }

  /// The output by running statistics.
  std::vector<float> evaluate() {
    StepContext step;
    step.training = false;
    return copy(model.forward(step, {model.network().input(), x}).data);
  }
};

/// A CPU backend of two threads that takes these kernels for all that the fused network asks for, where they serve.
inline std::unique_ptr<Backend> backend_with(const char* kernels, const Shape& in,
                                             const std::vector<LayerSpec>& layers) {
  auto backend = cpu::make_choosing_backend(2);
  cpu::KernelChoices& choices = *cpu::kernel_choices(*backend);
  { const Model asks(*backend, FusedNetwork::settings(in, layers, true)); }
  for (const std::string& problem : choices.asked()) choices.put(problem, {kernels});
  return backend;
}

/// Runs `first` and `second` on their parts of the batch as two ranks. Then the first has the output and the sums of
/// both.
inline void run_as_two_ranks(FusedNetwork& first, FusedNetwork& second) {
  const Index rows = first.model.network().input().n, part = rows / 3 + 1;
  ThreadSum::Shared shared;
  const auto rank = [&](FusedNetwork& network, int number) {
    ThreadSum sum(shared, number);
    network.run(number == 0 ? 0 : part, number == 0 ? part : rows - part, &sum);
  };
  std::thread thread(rank, std::ref(second), 1);
  rank(first, 0);
  thread.join();
  for (std::size_t i = 0; i < first.grads.size(); ++i) first.grads[i] += second.grads[i];
  first.y.insert(first.y.end(), second.y.begin(), second.y.end());
}

/// Calls check(ranks, whole): what two ranks have together by the fused network, each on its part of the batch, and the
/// whole batch by the reference's layers one after the other.
template <class Check>
void compare_two_ranks(const Shape& in, const std::vector<LayerSpec>& layers, const Check& check) {
  const auto reference = make_reference_backend(), one = make_cpu_backend(1), other = make_cpu_backend(1);
  FusedNetwork whole(*reference, in, layers, false), first(*one, in, layers, true), second(*other, in, layers, true);
  whole.run(0, in.n, nullptr);
  run_as_two_ranks(first, second);
  check(first, whole);
}

}  // namespace mrmf::test
