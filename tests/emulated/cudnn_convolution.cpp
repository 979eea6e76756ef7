#include "tests/emulated/cudnn_convolution.hpp"

#include <algorithm>
#include <array>

#include "tests/emulated/gemm.hpp"

namespace mrmf::emulated::dnn {
namespace {

using Triple = std::array<std::int64_t, 3>;

/// A problem with three spatial axes (leading ones for fewer).
struct Problem {
  std::int64_t rows = 0, in_channels = 0, out_channels = 0;
  Triple in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, pre{0, 0, 0}, stride{1, 1, 1}, dilation{1, 1, 1};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t in_size() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

Problem make_problem(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c) {
  Problem p{};
  p.rows = x.dims[0];
  p.in_channels = x.dims[1];
  p.out_channels = y.dims[1];
  const std::size_t axes = x.dims.size() - 2;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t to = 3 - axes + i;
    p.in[to] = x.dims[2 + i];
    p.out[to] = y.dims[2 + i];
    p.kernel[to] = w.dims[2 + i];
    p.pre[to] = c.pre[i];
    p.stride[to] = c.stride[i];
    p.dilation[to] = c.dilation[i];
  }
  return p;
}

Triple unflatten(std::int64_t index, const Triple& size) {
  return {index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]};
}

/// Where output position `at` reads for `tap`, flat; -1 in the padding.
std::int64_t read_position(const Problem& p, const Triple& at, const Triple& tap) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t position = at[i] * p.stride[i] - p.pre[i] + tap[i] * p.dilation[i];
    if (position < 0 || position >= p.in[i]) return -1;
    flat = flat * p.in[i] + position;
  }
  return flat;
}

/// For every tap and output position, what read_position says.
std::vector<std::int64_t> reads(const Problem& p) {
  std::vector<std::int64_t> table(static_cast<std::size_t>(p.taps() * p.out_size()));
  for (std::int64_t tap = 0, i = 0; tap < p.taps(); ++tap)
    for (std::int64_t at = 0; at < p.out_size(); ++at, ++i)
      table[static_cast<std::size_t>(i)] = read_position(p, unflatten(at, p.out), unflatten(tap, p.kernel));
  return table;
}

/// The same map from the input's side: for every tap and input position, the output position that reads it, or -1.
std::vector<std::int64_t> inverse(const Problem& p, const std::vector<std::int64_t>& table) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(p.taps() * p.in_size()), -1);
  for (std::int64_t tap = 0; tap < p.taps(); ++tap)
    for (std::int64_t at = 0; at < p.out_size(); ++at) {
      const std::int64_t from = table[static_cast<std::size_t>(tap * p.out_size() + at)];
      if (from >= 0) result[static_cast<std::size_t>(tap * p.in_size() + from)] = at;
    }
  return result;
}

/// One pass that gathers rows of `source` by `table` (tap x targets) and multiplies them by the tap's matrix.
struct Gather {
  std::int64_t rows, sources, targets, taps;
  std::size_t inner, outer;
};

Values gather(const Gather& g, const std::vector<std::int64_t>& table, const Values& source, const Values& matrices) {
  Values result(static_cast<std::size_t>(g.rows * g.targets) * g.outer);
  const Values nothing(g.inner, 0.0);
  Values block(kRows * g.outer);
  for (std::int64_t row = 0; row < g.rows; ++row)
    for (std::int64_t first = 0; first < g.targets; first += kRows) {
      const auto count = std::min<std::int64_t>(kRows, g.targets - first);
      std::fill(block.begin(), block.end(), 0.0);
      for (std::int64_t tap = 0; tap < g.taps; ++tap) {
        std::array<const double*, kRows> from;
        from.fill(nothing.data());
        bool any = false;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = table[static_cast<std::size_t>(tap * g.targets + first + i)];
          if (at < 0) continue;
          any = true;
          from[static_cast<std::size_t>(i)] = source.data() + static_cast<std::size_t>(row * g.sources + at) * g.inner;
        }
        if (any)
          add_rows_times(from.data(), matrices.data() + static_cast<std::size_t>(tap) * g.inner * g.outer, g.inner,
                         g.outer, block.data());
      }
      std::copy_n(
          block.begin(), static_cast<std::size_t>(count) * g.outer,
          result.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row * g.targets + first) * g.outer));
    }
  return result;
}

/// Filters (out, taps, in) as one matrix per tap, (in, out) or (out, in).
Values tap_matrices(const Problem& p, const Values& w, bool in_by_out) {
  Values result(w.size());
  const std::int64_t taps = p.taps(), in = p.in_channels, out = p.out_channels;
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      for (std::int64_t i = 0; i < in; ++i) {
        const std::int64_t to = in_by_out ? (tap * in + i) * out + o : (tap * out + o) * in + i;
        result[static_cast<std::size_t>(to)] = w[static_cast<std::size_t>((o * taps + tap) * in + i)];
      }
  return result;
}

Values filter_gradient(const Problem& p, const std::vector<std::int64_t>& table, const Values& x, const Values& dy) {
  const auto in = static_cast<std::size_t>(p.in_channels), out = static_cast<std::size_t>(p.out_channels);
  Values dw(static_cast<std::size_t>(p.taps()) * in * out);
  const Values nothing(std::max(in, out), 0.0);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t tap = 0; tap < p.taps(); ++tap)
      for (std::int64_t first = 0; first < p.out_size(); first += kRows) {
        std::array<const double*, kRows> left, right;
        left.fill(nothing.data());
        right.fill(nothing.data());
        for (std::int64_t i = 0; i < std::min<std::int64_t>(kRows, p.out_size() - first); ++i) {
          const std::int64_t at = table[static_cast<std::size_t>(tap * p.out_size() + first + i)];
          if (at < 0) continue;
          left[static_cast<std::size_t>(i)] =
              dy.data() + static_cast<std::size_t>(row * p.out_size() + first + i) * out;
          right[static_cast<std::size_t>(i)] = x.data() + static_cast<std::size_t>(row * p.in_size() + at) * in;
        }
        add_outer_products(left.data(), right.data(), out, in, dw.data() + static_cast<std::size_t>(tap) * out * in);
      }
  return dw;
}

/// (taps, out, in) to (out, taps, in).
Values to_filters(const Problem& p, const Values& by_tap) {
  Values result(by_tap.size());
  const auto taps = static_cast<std::size_t>(p.taps()), in = static_cast<std::size_t>(p.in_channels),
             out = static_cast<std::size_t>(p.out_channels);
  for (std::size_t tap = 0; tap < taps; ++tap)
    for (std::size_t o = 0; o < out; ++o)
      std::copy_n(&by_tap[(tap * out + o) * in], in, &result[(o * taps + tap) * in]);
  return result;
}

}  // namespace

Values convolve(const Graph& graph, const Operation& operation, const Values& x, const Values& b) {
  const Tensor& first = graph.tensor(operation.x);
  const Tensor& second = graph.tensor(operation.b);
  const Tensor& result = graph.tensor(operation.y);
  if (operation.kind == Kind::forward) {
    const Problem p = make_problem(first, second, result, operation.convolution);
    return gather({p.rows, p.in_size(), p.out_size(), p.taps(), static_cast<std::size_t>(p.in_channels),
                   static_cast<std::size_t>(p.out_channels)},
                  reads(p), x, tap_matrices(p, b, true));
  }
  if (operation.kind == Kind::backward_data) {
    const Problem p = make_problem(result, second, first, operation.convolution);
    return gather({p.rows, p.out_size(), p.in_size(), p.taps(), static_cast<std::size_t>(p.out_channels),
                   static_cast<std::size_t>(p.in_channels)},
                  inverse(p, reads(p)), x, tap_matrices(p, b, false));
  }
  const Problem p = make_problem(first, result, second, operation.convolution);
  return to_filters(p, filter_gradient(p, reads(p), x, b));
}

}  // namespace mrmf::emulated::dnn
