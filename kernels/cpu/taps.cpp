#include "kernels/cpu/taps.hpp"

#include <utility>

namespace mrmf::cpu {

std::vector<Tap> taps_of(const ConvGeometry& g) {
  const Extent out = g.out();
  std::vector<Tap> taps;
  const auto number = [](const Extent& of, const Extent& at) { return (at[0] * of[1] + at[1]) * of[2] + at[2]; };
  const auto for_each = [](const Extent& of, const auto& visit) {
    for (Index i = 0; i < of[0]; ++i)
      for (Index j = 0; j < of[1]; ++j)
        for (Index k = 0; k < of[2]; ++k) visit(Extent{i, j, k});
  };
  for_each(g.kernel, [&](const Extent& tap) {
    Tap made{number(g.kernel, tap), {}};
    for_each(out, [&](const Extent& position) {
      Extent in{};
      bool inside = true;
      for (std::size_t a = 0; a < 3; ++a) {
        in[a] = position[a] * g.stride[a] - g.pad_before[a] + tap[a] * g.dilation[a];
        inside = inside && in[a] >= 0 && in[a] < g.in[a];
      }
      if (inside) made.pairs.push_back({number(out, position), number(g.in, in)});
    });
    taps.push_back(std::move(made));
  });
  return taps;
}

}  // namespace mrmf::cpu
