// Memory of a backend.
#pragma once

#include <memory>

#include "kernels/tensor.hpp"

namespace mrmf {

/// One allocation of floats, 64-byte aligned, zeroed, freed by its backend's deleter. Move-only.
class Arena {
 public:
  using Free = void (*)(float*);
  Arena() = default;
  Arena(float* data, std::size_t count, Free free) : data_(data, free), count_(count) {}
  Span span() { return {data_.get(), count_}; }
  ConstSpan span() const { return {data_.get(), count_}; }
  std::size_t size() const { return count_; }

 private:
  std::unique_ptr<float, Free> data_{nullptr, +[](float*) {}};
  std::size_t count_ = 0;
};

}  // namespace mrmf
