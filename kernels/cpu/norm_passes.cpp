// Batch norm with what may follow it in one pass, by lines of positions.
#include <algorithm>
#include <optional>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/batch_norm.hpp"
#include "kernels/errors.hpp"

namespace mrmf::cpu {
namespace {

PoolGeometry pool_of(const NormReluPool& s) {
  return s.pool ? *s.pool : PoolGeometry{PoolKind::average, s.norm.channels, s.in, {1, 1, 1}, {1, 1, 1}};
}

}  // namespace

NormPasses::NormPasses(const NormReluPool& settings, bool shortcut)
    : loops_(norm_kernels()),
      pool_(pool_of(settings)),
      out_(pool_.out()),
      slope_behind_shortcut_(shortcut ? std::optional(settings.slope) : std::nullopt),
      sums_(settings.norm) {
  line_.positions = pool_.in[2];
  line_.channels = pool_.channels;
  line_.window = pool_.window[2];
  line_.pooled = out_[2];
  line_.share = 1.0F / static_cast<float>(product(pool_.window));
  line_.slope = shortcut ? 1 : settings.slope;  // the gradient that data() is given is the sum's
}

bool NormPasses::serve(const NormReluPool& settings) {
  const PoolGeometry pool = pool_of(settings);
  return pool.window[0] * pool.window[1] <= most_lines;
}

/// Two numbers of each window are kept and read again, where x would be read.
Index NormPasses::kept_floats(Index rows) const {
  return product(pool_.window) > 4 ? rows * 2 * product(out_) * pool_.channels : 0;
}

void NormPasses::forward(const norm_loops::Terms& terms, ConstTensor x, ConstTensor shortcut, Tensor y, Span kept) {
  MRMF_CHECK(shortcut.data.empty() != slope_behind_shortcut_.has_value(), "a shortcut that was not announced");
  if (slope_behind_shortcut_) return forward_adding(terms, x, shortcut, y);
  norm_loops::Line form = line_;
  form.y_stride = y.stride();
  form.stream = streams(y);
  const Index out_line = line_.pooled * y.stride();
  share_out(x.shape.n * out_[0] * out_[1], sums_.threads(), [&](Index first, Index last, int) {
    std::array<const float*, most_lines> lines{};
    for (Index line = first; line < last; ++line) {
      const Index count = lines_under(line, x.data.data(), lines);
      float* const to = y.data.data() + line * out_line;
      if (kept.empty())
        loops_.forward(form, terms, lines.data(), count, to);
      else
        loops_.forward_keeping(form, terms, lines.data(), count, to,
                               kept.data() + line * 2 * form.pooled * form.channels);
    }
  });
}

void NormPasses::add_gradients(NormGradient& of, ConstSpan kept) {
  if (slope_behind_shortcut_) return add_gradients_adding(of);
  const Index channels = line_.channels;
  if (!kept.empty())
    return sums_.add_up(of.x.shape.n * product(out_), [&](Index first, Index last, double* sums) {
      loops_.kept_gradients(last - first, channels, line_.share, kept.data() + first * 2 * channels,
                            of.dy.data.data() + first * channels, sums);
    });
  sums_.add_up(of.x.shape.n * pool_.in[0] * pool_.in[1], [&](Index first, Index last, double* sums) {
    for (Index line = first; line < last; ++line)
      if (const float* from = gradient_of(line, of.dy.data.data()))
        loops_.gradients(line_, of.terms, of.x.data.data() + line * in_line(), from, sums);
  });
}

void NormPasses::forward_adding(const norm_loops::Terms& terms, ConstTensor x, ConstTensor shortcut, Tensor y) {
  norm_loops::Line form = line_;
  form.slope = *slope_behind_shortcut_;
  form.y_stride = form.channels;
  form.stream = streams(y) && y.data.data() != shortcut.data.data();  // lines that are still read stay in the caches
  share_out(x.shape.n * out_[0] * out_[1], sums_.threads(), [&](Index first, Index last, int) {
    for (Index at = first * in_line(); at < last * in_line(); at += in_line())
      loops_.forward_adding(form, terms, x.data.data() + at, shortcut.data.data() + at, y.data.data() + at);
  });
}

void NormPasses::add_gradients_adding(NormGradient& of) {
  norm_loops::Line form = line_;
  form.slope = *slope_behind_shortcut_;
  const ConstTensor y = form.slope == 1 ? of.dy : of.y;  // without an activation nobody keeps it
  sums_.add_up(of.x.shape.n * out_[0] * out_[1], [&](Index first, Index last, double* sums) {
    for (Index at = first * in_line(); at < last * in_line(); at += in_line())
      loops_.gradients_adding(form, of.terms, of.x.data.data() + at, y.data.data() + at, of.dy.data.data() + at,
                              of.dshortcut.data.data() + at, sums);
  });
  of.dy = of.dshortcut;
}

void NormPasses::data_gradient(const NormGradient& of, Tensor dx) {
  norm_loops::Line form = line_;
  form.stream = streams(dx) && dx.data.data() != of.x.data.data();  // lines that are still read stay in the caches
  share_out(of.x.shape.n * pool_.in[0] * pool_.in[1], sums_.threads(), [&](Index first, Index last, int) {
    data_lines(form, of, first, last, dx.data.data() + first * in_line());
  });
}

void NormPasses::data_lines(const norm_loops::Line& form, const NormGradient& of, Index first, Index last,
                            float* dx) const {
  for (Index line = first; line < last; ++line, dx += in_line())
    loops_.data(form, of.terms, of.data, of.x.data.data() + line * in_line(), gradient_of(line, of.dy.data.data()), dx);
}

/// The input lines under an output line, both counted over all samples.
Index NormPasses::lines_under(Index line, const float* x, std::array<const float*, most_lines>& lines) const {
  const Index sample = line / (out_[0] * out_[1]), i = line / out_[1] % out_[0], j = line % out_[1];
  std::size_t count = 0;
  for (Index a = i * pool_.window[0]; a < (i + 1) * pool_.window[0]; ++a)
    for (Index b = j * pool_.window[1]; b < (j + 1) * pool_.window[1]; ++b)
      lines[count++] = x + ((sample * pool_.in[0] + a) * pool_.in[1] + b) * in_line();
  return static_cast<Index>(count);
}

/// The line of dy over an input line; null when no window holds it.
const float* NormPasses::gradient_of(Index line, const float* dy) const {
  const Index sample = line / (pool_.in[0] * pool_.in[1]);
  const Index i = line / pool_.in[1] % pool_.in[0] / pool_.window[0], j = line % pool_.in[1] / pool_.window[1];
  if (i >= out_[0] || j >= out_[1]) return nullptr;
  return dy + ((sample * out_[0] + i) * out_[1] + j) * line_.pooled * line_.channels;
}

}  // namespace mrmf::cpu
