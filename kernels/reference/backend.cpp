#include "kernels/reference/backend.hpp"

#include <cstdlib>
#include <new>

namespace mrmf {

Arena reference::ReferenceBackend::allocate(Index count) {
  constexpr std::size_t alignment = 64;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  const std::size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  auto* const data = static_cast<float*>(std::aligned_alloc(alignment, rounded));
  if (data == nullptr) throw std::bad_alloc();
  std::fill_n(data, rounded / sizeof(float), 0.0F);
  return {data, static_cast<std::size_t>(count), +[](float* p) { std::free(p); }};
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<reference::ReferenceBackend>(); }

}  // namespace mrmf
