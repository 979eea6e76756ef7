// One direction of a layer with weights (forward, backward data, backward weights) as oneDNN runs it: the primitive
// and, where it wants its own weight layout, the reorder between that and the project's. Kept per number of rows
// and threads.
#pragma once

#include <omp.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/onednn/context.hpp"

namespace mrmf::onednn {

enum class Direction { pack, unpack };  ///< weights are read, or written

class Pass {
 public:
  template <class PrimitiveDesc>
  Pass(const Context& context, const PrimitiveDesc& pd, const Desc& packed, const Desc& plain, Direction direction,
       std::vector<std::pair<int, Desc>> arguments)
      : run_(context, pd, std::move(arguments)) {
    if (packed == plain) return;
    const Desc& from = direction == Direction::pack ? plain : packed;
    const Desc& to = direction == Direction::pack ? packed : plain;
    reorder_.emplace(context,
                     dnnl::reorder::primitive_desc(context.engine(), from, context.engine(), to, user_scratchpad()),
                     std::vector<std::pair<int, Desc>>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    context.packed().reserve(packed.get_size());
  }

  /// run(bound, weights) with the weights as the primitive wants them.
  template <class Run>
  void with_packed(const Context& context, const float* plain, const Run& run) {
    if (reorder_) (*reorder_)(context, {plain, context.packed().data()});
    run(run_, reorder_ ? context.packed().data() : plain);
  }
  /// run(bound, weights), which writes the weights, then brings them into the project's layout.
  template <class Run>
  void then_unpack(const Context& context, float* plain, const Run& run) {
    run(run_, reorder_ ? context.packed().data() : plain);
    if (reorder_) (*reorder_)(context, {context.packed().data(), plain});
  }

 private:
  Bound run_;
  std::optional<Bound> reorder_;
};

/// The passes of one direction by the number of rows, and of threads that a parallel region has here.
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

}  // namespace mrmf::onednn
