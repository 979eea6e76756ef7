// Energies of a sample's detail, level by level; declared in detail_measurement.hpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/errors.hpp"
#include "src/inspection/detail_measurement.hpp"

namespace mrmf {
namespace {

constexpr int kMostLevels = 4;
constexpr Index kShortest = 4;  // positions along an axis that are halved

/// Positions of a sample, with channels last.
struct Volume {
  Extent size{1, 1, 1};
  Index channels = 1;
  std::vector<double> values{};
};

Extent halved(Extent size, int axes) {
  for (std::size_t axis = size.size() - static_cast<std::size_t>(axes); axis < size.size(); ++axis) size[axis] /= 2;
  return size;
}

/// Where the positions of a block lie from its first one on; bit b of a position's number is for the b-th last axis.
template <int axes>
std::array<Index, std::size_t{1} << axes> corners(const Volume& x) {
  const std::array<Index, 3> step{x.channels, x.size[2] * x.channels, x.size[1] * x.size[2] * x.channels};
  std::array<Index, std::size_t{1} << axes> corner{};
  for (std::size_t i = 0; i < corner.size(); ++i)
    for (std::size_t b = 0; b < axes; ++b)
      if ((i >> b & 1U) != 0) corner[i] += step[b];
  return corner;
}

/// From the values of a block to their mean, which comes first, and their details.
template <std::size_t count>
void split(std::array<double, count>& block) {
  for (std::size_t bit = 1; bit < count; bit *= 2)
    for (std::size_t i = 0; i < count; ++i) {
      if ((i & bit) != 0) continue;
      const double a = block[i], b = block[i | bit];
      block[i] = (a + b) / 2;
      block[i | bit] = (a - b) / 2;
    }
}

/// Adds up a level's squares in `energies`, a group per orientation, and returns the averages.
template <int axes>
Volume halve(const Volume& x, bool log1p, std::span<double> energies) {
  Volume coarse{halved(x.size, axes), x.channels, {}};
  coarse.values.reserve(static_cast<std::size_t>(product(coarse.size) * x.channels));
  const auto corner = corners<axes>(x);
  const auto channels = static_cast<std::size_t>(x.channels);
  constexpr Index rows = axes > 1 ? 2 : 1, planes = axes > 2 ? 2 : 1;
  std::array<double, corner.size()> block;
  for (Index d = 0; d < coarse.size[0]; ++d)
    for (Index h = 0; h < coarse.size[1]; ++h) {
      const double* from = x.values.data() + ((d * planes * x.size[1]) + h * rows) * x.size[2] * x.channels;
      for (Index w = 0; w < coarse.size[2]; ++w, from += 2 * x.channels)
        for (std::size_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (std::size_t i = 0; i < block.size(); ++i)
            sum += block[i] = from[static_cast<std::size_t>(corner[i]) + c];
          coarse.values.push_back(sum / static_cast<double>(block.size()));
          if (log1p)
            for (double& value : block) value = std::log1p(value);
          split(block);
          for (std::size_t i = 1; i < block.size(); ++i) energies[(i - 1) * channels + c] += block[i] * block[i];
        }
    }
  return coarse;
}

Volume halve(const Volume& x, int axes, bool log1p, std::span<double> energies) {
  if (axes == 1) return halve<1>(x, log1p, energies);
  if (axes == 2) return halve<2>(x, log1p, energies);
  return halve<3>(x, log1p, energies);
}

/// Variance and mean of each channel.
void measure_rest(const Volume& x, bool log1p, std::span<double> variance, std::span<double> mean) {
  const auto positions = static_cast<double>(product(x.size));
  const auto value = [&](std::size_t i) { return log1p ? std::log1p(x.values[i]) : x.values[i]; };
  const std::size_t channels = mean.size();
  for (std::size_t i = 0; i < x.values.size(); ++i) mean[i % channels] += value(i) / positions;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double off = value(i) - mean[i % channels];
    variance[i % channels] += off * off / positions;
  }
}

}  // namespace

HaarEnergies::HaarEnergies(const Shape& sample, bool log1p) : sample_(sample), log1p_(log1p) {
  MRMF_CHECK(sample.axes >= 1 && sample.axes <= 3, "only samples with positions have detail");
  const auto shortest = [&](const Extent& size) { return *std::min_element(size.end() - sample.axes, size.end()); };
  for (Extent size = sample.spatial; levels_ < kMostLevels && shortest(size) >= kShortest; ++levels_)
    size = halved(size, sample.axes);
}

void HaarEnergies::measure(ConstSpan x, std::span<double> to) const {
  MRMF_CHECK(std::ssize(x) == sample_.per_sample() && std::ssize(to) == numbers(), "a sample of another shape");
  std::ranges::fill(to, 0.0);
  Volume rest{sample_.spatial, sample_.channels, {x.begin(), x.end()}};
  const auto channels = static_cast<std::size_t>(sample_.channels);
  const std::size_t of_level = static_cast<std::size_t>(finest_groups()) * channels;
  for (int level = 0; level < levels_; ++level) {
    const std::span<double> energies = to.subspan(static_cast<std::size_t>(level) * of_level, of_level);
    rest = halve(rest, sample_.axes, log1p_, energies);
    for (double& energy : energies) energy /= static_cast<double>(product(rest.size));
  }
  measure_rest(rest, log1p_, to.last(2 * channels).first(channels), to.last(channels));
}

}  // namespace mrmf
