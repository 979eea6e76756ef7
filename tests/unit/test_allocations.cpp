// No memory is taken inside a training step. Every call for memory is seen here while a step runs: these functions
// stand before the C library's, from which operator new, arenas and the libraries get theirs. Allowed are small
// argument lists of oneDNN, and the packing buffers that its gemm takes at each call of a dense layer, a transposed
// convolution or a weight gradient by taps (256 kB a thread on AVX2); nothing of ours can lend it those.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>

#include "src/training/model_and_optimizer.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

// Sanitizers have functions of their own in these places; beside them only operator new is seen.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MRMF_SEES_C_LIBRARY
#endif

namespace {

struct MemoryCall {
  std::size_t size = 0;
  const void* caller = nullptr;  // an instruction of who asked
};

std::atomic<bool> watching{false};
std::atomic<std::size_t> memory_call_count{0};
std::array<MemoryCall, 100'000> memory_calls;

void note(std::size_t size, const void* caller) {
  if (!watching) return;
  const std::size_t i = memory_call_count++;
  if (i < memory_calls.size()) memory_calls[i] = {size, caller};
}

}  // namespace

#ifdef MRMF_SEES_C_LIBRARY
extern "C" {
// glibc's own functions under its other names.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  note(size, __builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note(count * size, __builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  note(size, __builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note(size, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  note(size, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  note(size, __builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

#ifndef MRMF_SEES_C_LIBRARY
namespace {

void* take(std::size_t size, std::size_t alignment) {
  note(size, nullptr);
  void* memory =
      std::aligned_alloc(alignment, (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return take(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept try {
  return take(size, alignof(std::max_align_t));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct Taken {
  std::size_t number = 0, largest = 0;
  void add(std::size_t size) { ++number, largest = std::max(largest, size); }
};

struct Seen {
  Taken ours, libraries;
};

// oneDNN, or OpenMP, which makes a team of threads anew where their number changes.
bool is_library(const void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string file = info.dli_fname;
  return file.find("libdnnl") != std::string::npos || file.find("libgomp") != std::string::npos;
}

template <class Work>
Seen watch(const Work& work) {
  memory_call_count = 0;
  watching = true;
  work();
  watching = false;
  REQUIRE(memory_call_count <= memory_calls.size());
  Seen seen;
  for (std::size_t i = 0; i < memory_call_count; ++i)
    (is_library(memory_calls[i].caller) ? seen.libraries : seen.ours).add(memory_calls[i].size);
  return seen;
}

}  // namespace

#ifdef MRMF_SEES_C_LIBRARY
TEST_CASE("step: what takes memory is seen, arenas too") {
  for (const auto& backend : {make_cpu_backend(2), make_reference_backend()}) {
    INFO(backend->name());
    CHECK(watch([&] { backend->allocate(5000); }).ours.largest >= 20'000);
  }
  CHECK(watch([] { const std::vector<char> some(3000); }).ours.largest == 3000);
  CHECK(watch([] { std::free(std::malloc(4000)); }).ours.largest == 4000);
}
#endif

TEST_CASE("step: takes no memory for tensors, weights or scratch") {
  const auto backend = make_cpu_backend(2);
  ModelSettings settings;
  settings.network = {
      {.n = 0, .spatial = {1, 1, 400}, .channels = 3, .axes = 1}, 32, preset_layers("neuron_inverter"), ""};
  for (const bool fuse : {true, false}) {
    CAPTURE(fuse);
    settings.fuse = fuse;
    ModelState model_state(*backend, settings, OptimizerSettings{}, {1, 1, 1});
    model_state.optimizer.set_ages({3, 1});  // as after a fusion: both groups are updated by themselves
    const Batch batch(model_state.model, 32, 5);
    const std::vector<float> target = random_values(32 * 19, 6);
    Arena sum = backend->allocate(1);
    const auto loss = backend->loss({}, model_state.model.network().output(), 19);
    const auto step = [&] {
      const StepContext now = batch.step(true, model_state.optimizer.steps());
      const ConstTensor y = model_state.model.forward(now, batch.x());
      loss->run(now, y, {y.shape, target}, model_state.model.output_gradient(32), sum.span());
      model_state.model.backward(now, batch.x());
      update(model_state.optimizer, 1e-3, model_state.model);
    };
    step();  // oneDNN makes its threads' own memory once
    const Seen seen = watch(step);
    CAPTURE(seen.ours.number);
    CAPTURE(seen.ours.largest);
    CAPTURE(seen.libraries.number);
    CAPTURE(seen.libraries.largest);
    // What is left are oneDNN's argument lists, some hundred bytes each, which its header's code takes in our name; the
    // smallest tensor here has 32 x 19 floats.
    CHECK(seen.ours.largest < 1024);
    CHECK(seen.ours.number < 2000);
    CHECK(seen.libraries.number < 2000);
    CHECK(seen.libraries.largest < 1'000'000);
  }
}

#ifdef MRMF_SEES_C_LIBRARY
TEST_CASE("plan: a network that is not trained takes no memory for what its kernels would work in") {
  const auto backend = make_cpu_backend(2);
  ModelSettings settings;
  settings.network = {{.n = 0, .spatial = {64, 64, 64}, .channels = 4, .axes = 3}, 1, preset_layers("cosmoflow"), ""};
  Index operations = 0;
  const Seen seen = watch([&] {
    const Network network(*backend, settings.network);
    operations = std::ssize(build_execution(*backend, network, settings).units);
  });
  CHECK(operations > 5);
  CHECK(seen.ours.largest < 100'000);  // copies of the first convolution's input planes alone have 0.2 MB
}
#endif
