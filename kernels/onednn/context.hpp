// What every oneDNN operation shares: engine and stream, aligned memory, and a primitive bound to its memories.
#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "kernels/onednn/memory.hpp"

namespace mrmf::onednn {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

inline Desc f32(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

class Context {
 public:
  Context() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}
  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

/// Scratchpads are memory of ours, allocated once.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// A primitive with its memory objects, made once; a call only sets addresses. Scratchpad memory is its own.
class Bound {
 public:
  Bound() = default;
  template <class PrimitiveDesc>
  Bound(const Context& context, const PrimitiveDesc& pd, std::vector<std::pair<int, Desc>> arguments)
      : Bound(context, dnnl::primitive(pd.get()), std::move(arguments)) {
    bind(context, DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
    scratch_ = make_arena(static_cast<Index>(pd.scratchpad_desc().get_size() / sizeof(float) + 1));
    memories_.back().set_data_handle(scratch_.span().data());
  }

  void operator()(const Context& context, std::initializer_list<const float*> addresses) {
    (*this)(context, std::span<const float* const>(addresses.begin(), addresses.size()));
  }
  /// Addresses in the order of the arguments at construction.
  void operator()(const Context& context, std::span<const float* const> addresses) {
    std::size_t i = 0;
    for (const float* address : addresses)  // the library's handles know no const; inputs are only read
      dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memories_[i++].get(), const_cast<float*>(address)),
                              "oneDNN refused a memory address");
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

  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  Arena scratch_;
};

}  // namespace mrmf::onednn
