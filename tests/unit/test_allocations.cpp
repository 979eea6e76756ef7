// No memory is taken inside a training step: every allocation through operator new, ours and the libraries', is seen
// here while a step runs. Not seen are the packing buffers that oneDNN 2.6's gemm takes from the C library at each call
// of a dense layer (256 kB a thread on AVX2); nothing of ours can lend it those.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "src/learner.hpp"
#include "tests/unit/backends.hpp"
#include "tests/unit/small_model.hpp"

namespace {

std::atomic<bool> watching{false};
std::atomic<std::size_t> largest{0}, number{0};

void* take(std::size_t size, std::size_t alignment) {
  if (watching) {
    ++number;
    std::size_t seen = largest;
    while (size > seen && !largest.compare_exchange_weak(seen, size)) {
    }
  }
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded);
}

void* take_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = take(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take_or_throw(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return take_or_throw(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace mrmf;
using namespace mrmf::test;

TEST_CASE("step: takes no memory for tensors, weights or scratch") {
  const auto backend = make_onednn_backend(2);
  ModelSettings settings;
  settings.network = {
      {.n = 0, .spatial = {1, 1, 400}, .channels = 3, .axes = 1}, 32, preset_layers("neuron_inverter"), ""};
  for (const bool fuse : {true, false}) {
    CAPTURE(fuse);
    settings.fuse = fuse;
    Learner learner(*backend, settings, OptimizerSettings{}, {1, 1, 1});
    const Batch batch(learner.model, 32, 5);
    const std::vector<float> target = random_values(32 * 19, 6);
    const auto step = [&] {
      const Step now = batch.step(true, learner.optimizer.steps());
      const ConstTensor y = learner.model.forward(now, batch.x());
      loss_of(*backend, LossKind::mse, y, {y.shape, target}, 1.0F / 32, learner.model.output_gradient(32));
      learner.model.backward(now, batch.x());
      update(learner.optimizer, 1e-3, learner.model);
    };
    step();  // oneDNN makes its threads' own memory once
    largest = number = 0;
    watching = true;
    step();
    watching = false;
    CAPTURE(number.load());
    CAPTURE(largest.load());
    // What is left are oneDNN's argument lists, some hundred bytes each; the smallest tensor here has 32 x 19 floats.
    CHECK(largest < 1024);
    CHECK(number < 2000);
  }
}
