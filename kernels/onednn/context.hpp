// What every oneDNN operation shares: engine and stream, threads, aligned memory, and a primitive bound to its
// memories.
#pragma once

#include <omp.h>

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "kernels/host/threads.hpp"
#include "kernels/onednn/memory.hpp"

namespace mrmf::onednn {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

inline Desc f32(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

/// Memory that calls use one after the other, none of which finds what it left there; as much as the largest wants.
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
  /// Primitives are made, and run, by at most so many threads.
  explicit Context(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}
  int threads() const { return threads_; }
  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }
  SharedMemory& scratch() const { return *scratch_; }  ///< of the primitive that runs
  SharedMemory& packed() const { return *packed_; }    ///< weights in the layout that it wants

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<SharedMemory> scratch_ = std::make_unique<SharedMemory>();
  std::unique_ptr<SharedMemory> packed_ = std::make_unique<SharedMemory>();
};

/// Scratchpads are memory of ours: the library would take one for every primitive.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// A primitive with its memory objects, made once; a call only sets addresses. It is made, and called, within a
/// ThreadScope, and refuses to run with other threads than it was made for.
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
  /// Addresses in the order of the arguments at construction.
  void operator()(const Context& context, std::span<const float* const> addresses) {
    MRMF_CHECK(omp_get_max_threads() == threads_ && granted_threads(threads_) == threads_,
               "a primitive made for " + std::to_string(threads_) + " threads would run with other ones");
    std::size_t i = 0;
    for (const float* address : addresses)  // the library's handles know no const; inputs are only read
      place(i++, const_cast<float*>(address));
    place(i, context.scratch().data());
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

  void place(std::size_t i, float* address) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memories_[i].get(), address),
                            "oneDNN refused a memory address");
  }

  int threads_ = omp_get_max_threads();
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // of the arguments, then the scratchpad
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace mrmf::onednn
