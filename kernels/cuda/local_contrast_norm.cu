// Local contrast normalisation: a thread for every position, which adds up its channels and its window of one number
// per position.
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// What all passes know.
struct Contrast {
  ContrastWindow window;
  ContrastFields fields;
  std::uint32_t channels;
  std::size_t stored;  // elements of a position
  std::uint32_t in;
  float inverse, floor;

  Contrast(const Work& work, const ContrastGeometry& g, Index n, Span kept)
      : window(g),
        fields(kept, n * product(g.in)),
        channels(count32(g.channels)),
        stored(static_cast<std::size_t>(work.storage.channels(g.channels))),
        in(count32(product(g.in))),
        inverse(1.0F / static_cast<float>(g.channels)),
        floor(g.floor) {}

  /// A position of a row: where the row's begin in a field, and its number among all rows' of x.
  struct RowPosition {
    Position at;
    std::size_t row, number;
  };
  MRMF_HD RowPosition row_position(const PositionBox& box, std::uint32_t i) const {
    const auto count = static_cast<std::uint32_t>(box.count());
    RowPosition p{ContrastWindow::position(box, static_cast<std::int32_t>(i % count)), std::size_t{i / count} * in, 0};
    p.number = p.row + static_cast<std::size_t>(window.number(p.at));
    return p;
  }
  MRMF_HD float factor(const RowPosition& p) const {
    const float deviation = fields.deviation[p.number];
    return 1 / (deviation < floor ? floor : deviation);
  }
  /// The position's number among all rows' of y.
  MRMF_HD std::size_t number_in_out(const RowPosition& p) const {
    return p.row / in * static_cast<std::size_t>(window.out.count()) +
           static_cast<std::size_t>(window.number_in_out(p.at));
  }
  template <class T>
  MRMF_HD float sum(const T* x, float mean) const {
    float total = 0;
    for (std::uint32_t c = 0; c < channels; ++c) total += to_float(x[c]) - mean;
    return total;
  }
};

/// Reads x, writes the mean over channels.
template <class T>
struct ChannelMeans {
  Contrast of;
  const T* x;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.all, i);
    of.fields.first[p.number] = of.sum(x + p.number * of.stored, 0) * of.inverse;
  }
};

/// Reads x and those means, writes the window's mean and the mean square of what is left.
template <class T>
struct WindowMeans {
  Contrast of;
  const T* x;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.middle, i);
    const float mean = of.window.share(p.at) * of.window.sum(of.fields.first + p.row, of.window.all, p.at);
    float squares = 0;
    for (std::uint32_t c = 0; c < of.channels; ++c) {
      const float left = to_float(x[p.number * of.stored + c]) - mean;
      squares += left * left;
    }
    of.fields.mean[p.number] = mean;
    of.fields.second[p.number] = squares * of.inverse;
  }
};

/// Reads x, means and mean squares, writes the deviation and y.
template <class T>
struct Quotients {
  Contrast of;
  const T* x;
  T* y;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.out, i);
    const float variance = of.window.share(p.at) * of.window.sum(of.fields.second + p.row, of.window.middle, p.at);
    of.fields.deviation[p.number] = std::sqrt(variance);
    const float mean = of.fields.mean[p.number], factor = of.factor(p);
    for (std::uint32_t c = 0; c < of.stored; ++c)
      store_element(c < of.channels ? (to_float(x[p.number * of.stored + c]) - mean) * factor : 0, y,
                    i * of.stored + c);
  }
};

/// Reads x and dy, writes the gradient of the variance around each position of y.
template <class T>
struct VarianceGradients {
  Contrast of;
  const T *x, *dy;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.out, i);
    const float deviation = of.fields.deviation[p.number], mean = of.fields.mean[p.number];
    float total = 0;
    for (std::uint32_t c = 0; c < of.channels; ++c)
      total += to_float(dy[i * of.stored + c]) * (to_float(x[p.number * of.stored + c]) - mean);
    of.fields.first[p.number] =
        deviation < of.floor ? 0 : -total * of.window.share(p.at) / (2 * deviation * deviation * deviation);
  }
};

/// Reads x, dy and those gradients, writes the slope of what is left's squares, and the gradient of the mean.
template <class T>
struct MeanGradients {
  Contrast of;
  const T *x, *dy;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.middle, i);
    const float slope = 2 * of.inverse * of.window.sum(of.fields.first + p.row, of.window.out, p.at);
    const float left = of.sum(x + p.number * of.stored, of.fields.mean[p.number]);
    float of_y = 0;
    if (ContrastWindow::has(of.window.out, p.at)) of_y = of.factor(p) * of.sum(dy + of.number_in_out(p) * of.stored, 0);
    of.fields.second[p.number] = slope;
    of.fields.third[p.number] = -(of_y + slope * left) * of.inverse * of.window.share(p.at);
  }
};

/// Reads x, dy and both, writes dx.
template <class T>
struct InputGradients {
  Contrast of;
  const T *x, *dy;
  T* dx;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.all, i);
    const float of_mean = of.window.sum(of.fields.third + p.row, of.window.middle, p.at);
    const bool near = ContrastWindow::has(of.window.middle, p.at), here = ContrastWindow::has(of.window.out, p.at);
    const float mean = near ? of.fields.mean[p.number] : 0, slope = near ? of.fields.second[p.number] : 0;
    const float factor = here ? of.factor(p) : 0;
    const std::size_t from = here ? of.number_in_out(p) * of.stored : 0;
    for (std::uint32_t c = 0; c < of.stored; ++c) {
      float value = 0;
      if (c < of.channels) {
        value = of_mean + slope * (to_float(x[p.number * of.stored + c]) - mean);
        if (here) value += factor * to_float(dy[from + c]);
      }
      store_element(value, dx, p.number * of.stored + c);
    }
  }
};

}  // namespace

void contrast_forward(const Work& work, const ContrastGeometry& geometry, Index n, const void* x, Span kept, void* y) {
  const Contrast of(work, geometry, n, kept);
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, n * product(geometry.in), ChannelMeans<T>{of, elements<T>(x)});
    for_each(work.stream, n * product(geometry.middle().count), WindowMeans<T>{of, elements<T>(x)});
    for_each(work.stream, n * product(geometry.out.count), Quotients<T>{of, elements<T>(x), elements<T>(y)});
  });
}

void contrast_backward(const Work& work, const ContrastGeometry& geometry, Index n, const ContrastBackwardData& data) {
  const Contrast of(work, geometry, n, data.kept);
  with_element(work.storage, [&]<class T>(T) {
    const T *x = elements<T>(data.x), *dy = elements<T>(data.dy);
    for_each(work.stream, n * product(geometry.out.count), VarianceGradients<T>{of, x, dy});
    for_each(work.stream, n * product(geometry.middle().count), MeanGradients<T>{of, x, dy});
    for_each(work.stream, n * product(geometry.in), InputGradients<T>{of, x, dy, elements<T>(data.dx)});
  });
}

}  // namespace mrmf::cuda
