#include "kernels/cuda/norm.cuh"

namespace mrmf::cuda {
namespace {

/// Per element of dy: reads it and its window of x. Sums of the gradient g at the norm's output, and of g (x - mean).
template <class T, class Behind>
struct GradientSums {
  static constexpr int unroll = Behind::single ? 4 : 1;
  Behind behind;
  NormParameters parameters;
  std::size_t vectors;
  const T* x;
  const T* dy;
  float *dgamma, *dbeta;
  double* sums;
  double positions;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector, affine = parameters.template read<width<T>>(vector)](std::uint32_t row,
                                                                                    float(&to)[2][width<T>]) {
      constexpr int w = width<T>;
      float arriving[w];
      load_constant(f.dy, row * f.vectors + vector, arriving);
      for (int i = 0; i < w; ++i) arriving[i] *= f.behind.share;
      f.behind.windows.for_each_tap(row, [&](std::uint32_t, std::uint32_t from) {
        float value[w];
        load_constant(f.x, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) {
          const float g = f.behind.gradient(affine(i, value[i]), arriving[i]);
          to[0][i] += g;
          to[1][i] += g * (value[i] - affine.mean[i]);
        }
      });
    };
  }
  MRMF_HD void finish(Index c, const double (&totals)[2]) const {
    const double normalised = totals[1] * parameters.spread[c];
    dbeta[c] = static_cast<float>(totals[0]);
    dgamma[c] = static_cast<float>(normalised);
    sums[c] = totals[0];
    sums[parameters.channels + c] = normalised;
    if (c == 0) sums[2 * Index{parameters.channels}] = positions;
  }
};

/// Per element of dy: reads it and the positions of x that are its own, writes dx there:
/// dx = factor (g - mean of g - normalised x * mean of (g normalised x)) = factor g - offset - (x - mean) tilt.
template <class T, class Behind>
struct DataGradient {
  Behind behind;
  NormParameters parameters;
  std::size_t vectors;
  const T* x;
  const T* dy;
  T* dx;
  const double* sums;

  struct Body {
    DataGradient f;
    std::uint32_t vector;
    Affine<width<T>> affine;
    float offset[width<T>], tilt[width<T>];

    MRMF_HD void operator()(std::uint32_t row) const {
      constexpr int w = width<T>;
      float arriving[w];
      load_constant(f.dy, row * f.vectors + vector, arriving);
      for (int i = 0; i < w; ++i) arriving[i] *= f.behind.share;
      f.behind.windows.for_each_owned(row, [&](std::uint32_t tap, std::uint32_t at) {
        float value[w];
        load_constant(f.x, at * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) {
          const float passed = f.behind.gradient(affine(i, value[i]), arriving[i]);
          const float g = tap == outside ? 0 : passed;
          value[i] = affine.factor[i] * g - offset[i] - (value[i] - affine.mean[i]) * tilt[i];
        }
        store(value, f.dx, at * f.vectors + vector);
      });
    }
  };

  MRMF_HD Body at(std::uint32_t vector) const {
    constexpr int w = width<T>;
    Body body{*this, vector, parameters.template read<w>(vector), {}, {}};
    const double per_position = 1.0 / sums[2 * Index{parameters.channels}];
    for (int i = 0; i < w; ++i) {
      const std::uint32_t c = vector * w + static_cast<std::uint32_t>(i);
      if (c >= parameters.channels) continue;
      const double factor = body.affine.factor[i] * per_position;
      body.offset[i] = static_cast<float>(factor * sums[c]);
      body.tilt[i] = static_cast<float>(factor * parameters.spread[c] * sums[parameters.channels + c]);
    }
    return body;
  }
};

}  // namespace

void norm_backward(const NormWork& norm, Index n, const NormBackward& data, const NormMemory& memory) {
  const NormScratch scratch(norm.settings, norm.scratch);
  const NormSettings& settings = norm.settings.norm;
  const NormParameters parameters(settings, memory, true);
  const Reduction r{norm_windows(norm.settings, n), norm.work.storage.vectors(settings.channels), settings.channels,
                    scratch.partials};
  const auto vectors = static_cast<std::size_t>(r.vectors);
  const auto positions = static_cast<double>(norm_positions(norm.settings, n));
  const auto run = [&]<class T, class B>(T, const B& behind) {
    const auto *x = elements<T>(data.x), *dy = elements<T>(data.dy);
    reduce<2, width<T>>(
        norm.work.stream, r,
        GradientSums<T, B>{behind, parameters, vectors, x, dy, data.dgamma, data.dbeta, scratch.sums, positions});
    if (norm.ranks != nullptr)
      norm.ranks->sum({scratch.sums, static_cast<std::size_t>(NormScratch::sum_count(norm.settings))});
    if (data.dx != nullptr)
      for_each_row(norm.work.stream, r.rows, r.vectors,
                   DataGradient<T, B>{behind, parameters, vectors, x, dy, elements<T>(data.dx), scratch.sums});
  };
  with_element(norm.work.storage,
               [&](auto element) { with_behind(norm.settings, [&](const auto& behind) { run(element, behind); }); });
}

}  // namespace mrmf::cuda
