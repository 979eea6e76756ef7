// Times that oneDNN itself reaches for one layer on this machine: the yardstick of `mrmf bench layers`.
#include <algorithm>

#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/primitives.hpp"
#include "kernels/timer.hpp"

namespace mrmf::onednn {
namespace {

Arena made_up(const Desc& desc) {
  Arena arena = make_arena(static_cast<Index>(desc.get_size() / sizeof(float)));
  std::fill(arena.span().begin(), arena.span().end(), 0.01F);
  return arena;
}

/// The least time of a primitive in its own memory.
template <class PrimitiveDesc>
double least_seconds(const Context& context, const PrimitiveDesc& pd,
                     const std::vector<std::pair<int, Desc>>& arguments, int repeats) {
  Bound run(context, pd, arguments);
  std::vector<Arena> arenas;
  std::vector<const float*> addresses;
  for (const auto& argument : arguments) {
    arenas.push_back(made_up(argument.second));
    addresses.push_back(arenas.back().span().data());
  }
  double least = 1e30;
  for (int i = 0; i <= repeats; ++i) {  // the first is a warm-up
    const Timer timer;
    run(context, addresses);
    if (i > 0) least = std::min(least, timer.seconds());
  }
  return least;
}

template <class Descs>
BestTimes measure(const Descs& descs, int repeats) {
  const Context context(omp_get_max_threads());
  const ThreadScope threads(context.threads());
  const auto f = describe_forward(context, descs);
  const auto d = describe_backward_data(context, descs, descs);
  const auto w = describe_backward_weights(context, descs, descs);
  return {
      least_seconds(
          context, f,
          with_bias({{DNNL_ARG_SRC, f.src_desc()}, {DNNL_ARG_WEIGHTS, f.weights_desc()}, {DNNL_ARG_DST, f.dst_desc()}},
                    {DNNL_ARG_BIAS, descs.bias}),
          repeats),
      least_seconds(context, d,
                    {{DNNL_ARG_DIFF_DST, d.diff_dst_desc()},
                     {DNNL_ARG_WEIGHTS, d.weights_desc()},
                     {DNNL_ARG_DIFF_SRC, d.diff_src_desc()}},
                    repeats),
      least_seconds(context, w,
                    with_bias({{DNNL_ARG_SRC, w.src_desc()},
                               {DNNL_ARG_DIFF_DST, w.diff_dst_desc()},
                               {DNNL_ARG_DIFF_WEIGHTS, w.diff_weights_desc()}},
                              {DNNL_ARG_DIFF_BIAS, descs.bias}),
                    repeats)};
}

BestTimes better(const BestTimes& a, const BestTimes& b) {
  return {std::min(a.forward, b.forward), std::min(a.backward_data, b.backward_data),
          std::min(a.backward_weights, b.backward_weights)};
}

}  // namespace

BestTimes best_conv_times(const ConvGeometry& geometry, Index rows, int repeats) {
  const auto times = [&](Layout layout) { return measure(describe_conv(geometry, rows, layout), repeats); };
  return better(times(Layout::channels_last), times(Layout::any));
}

BestTimes best_dense_times(Index in, Index out, Index rows, int repeats) {
  const auto times = [&](Layout layout) { return measure(describe_dense(in, out, rows, layout), repeats); };
  return better(times(Layout::plain), better(times(Layout::channels_last), times(Layout::any)));
}

}  // namespace mrmf::onednn
