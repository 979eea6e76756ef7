// The fast CPU backend: oneDNN for convolutions and dense layers, own loops over OpenMP threads for the rest. Private
// to this folder.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/host/shared_arena.hpp"

namespace mrmf::onednn {

class Context;

/// Zeroed, 64-byte aligned floats.
inline Arena make_arena(Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
  auto* data = static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
  if (data == nullptr) throw std::bad_alloc();
    // The thread that first writes a page decides which memory it lies in: share the pages out as the loops do.
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < floats; ++i) data[i] = 0.0F;
  return {data, floats, +[](float* p) { std::free(p); }};
}

class OnednnBackend final : public Backend {
 public:
  explicit OnednnBackend(int threads);
  ~OnednnBackend() override;

  std::string name() const override { return "onednn"; }
  std::string description() const override;
  Arena allocate(Index count) override { return make_arena(count); }
  Arena allocate_shared(Index count) override { return host::allocate_shared(*this, count); }
  bool slices() const override { return true; }
  MRMF_BACKEND_OPERATIONS(MRMF_OVERRIDE_OPERATION)

 private:
  std::string instruction_set_;  // described before oneDNN is used
  int wanted_;                   // threads
  std::unique_ptr<const Context> context_;
};

}  // namespace mrmf::onednn
