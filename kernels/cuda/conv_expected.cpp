#include "kernels/cuda/conv_expected.hpp"

#include "kernels/cuda/pattern.hpp"

namespace mrmf::cuda {
namespace {

double first(Index i) { return pattern_value(first_seed, static_cast<std::uint64_t>(i)); }
double second(Index i) { return pattern_value(second_seed, static_cast<std::uint64_t>(i)); }

struct Place {
  Index row = 0;
  Extent at{};
  Index channel = 0;
};

// Where element i lies in a channels-last tensor.
Place place_of(Index i, const Extent& size, Index channels) {
  Place place;
  place.channel = i % channels;
  i /= channels;
  for (std::size_t a = 3; a-- > 0;) {
    place.at[a] = i % size[a];
    i /= size[a];
  }
  place.row = i;
  return place;
}

Index index_of(const Place& place, const Extent& size, Index channels) {
  Index i = place.row;
  for (std::size_t a = 0; a < 3; ++a) i = i * size[a] + place.at[a];
  return i * channels + place.channel;
}

bool inside(const Extent& at, const Extent& size) {
  for (std::size_t a = 0; a < 3; ++a)
    if (at[a] < 0 || at[a] >= size[a]) return false;
  return true;
}

template <class Use>
void for_each_position(const Extent& size, Use use) {
  for (Index i = 0; i < size[0]; ++i)
    for (Index j = 0; j < size[1]; ++j)
      for (Index k = 0; k < size[2]; ++k) use(Extent{i, j, k});
}

double forward_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Place y = place_of(i, g.out(), g.out_channels);
  double sum = problem.bias ? pattern_value(bias_seed, static_cast<std::uint64_t>(y.channel)) : 0.0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Place x{y.row, {}, 0};
    for (std::size_t a = 0; a < 3; ++a) x.at[a] = y.at[a] * g.stride[a] - g.pad_before[a] + tap[a];
    if (!inside(x.at, g.in)) return;
    for (x.channel = 0; x.channel < g.in_channels; ++x.channel)
      sum += first(index_of(x, g.in, g.in_channels)) *
             second(index_of({y.channel, tap, x.channel}, g.kernel, g.in_channels));
  });
  return sum;
}

double data_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Place x = place_of(i, g.in, g.in_channels);
  double sum = 0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Place y{x.row, {}, 0};
    for (std::size_t a = 0; a < 3; ++a) {
      const Index from = x.at[a] + g.pad_before[a] - tap[a];
      if (from % g.stride[a] != 0) return;
      y.at[a] = from / g.stride[a];
    }
    if (!inside(y.at, g.out())) return;
    for (y.channel = 0; y.channel < g.out_channels; ++y.channel)
      sum += first(index_of(y, g.out(), g.out_channels)) *
             second(index_of({y.channel, tap, x.channel}, g.kernel, g.in_channels));
  });
  return sum;
}

double weights_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Place w = place_of(i, g.kernel, g.in_channels);  // the row is the output channel
  const Extent out = g.out();
  double sum = 0;
  for (Index row = 0; row < problem.rows; ++row)
    for_each_position(out, [&](const Extent& at) {
      Place x{row, {}, w.channel};
      for (std::size_t a = 0; a < 3; ++a) x.at[a] = at[a] * g.stride[a] - g.pad_before[a] + w.at[a];
      if (!inside(x.at, g.in)) return;
      sum += first(index_of(x, g.in, g.in_channels)) * second(index_of({row, at, w.row}, out, g.out_channels));
    });
  return sum;
}

}  // namespace

ConvSizes::ConvSizes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Index x = problem.rows * product(g.in) * g.in_channels;
  const Index y = problem.rows * product(g.out()) * g.out_channels;
  switch (problem.pass) {
    case ConvPass::forward: first = x, second = g.weights(), result = y; break;
    case ConvPass::backward_data: first = y, second = g.weights(), result = x; break;
    case ConvPass::backward_weights: first = x, second = y, result = g.weights(); break;
  }
}

double expected_element(const ConvProblem& problem, Index i) {
  switch (problem.pass) {
    case ConvPass::forward: return forward_element(problem, i);
    case ConvPass::backward_data: return data_element(problem, i);
    case ConvPass::backward_weights: return weights_element(problem, i);
  }
  return 0;
}

}  // namespace mrmf::cuda
