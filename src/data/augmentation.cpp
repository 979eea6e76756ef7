#include "src/data/augmentation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

constexpr std::uint64_t kNumbers = 0x6e6f697365;  // apart from what moves positions

using Matrix = std::array<std::array<double, 3>, 3>;

constexpr Matrix kNoTurn{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix product{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 3; ++k) product[i][j] += a[i][k] * b[k][j];
  return product;
}

Matrix plane_turn(std::size_t a, std::size_t b, double angle) {
  Matrix turn = kNoTurn;
  turn[a][a] = turn[b][b] = std::cos(angle);
  turn[a][b] = -std::sin(angle);
  turn[b][a] = std::sin(angle);
  return turn;
}

// The number of a data axis among the three of an Extent: unused ones come first.
std::size_t extent_axis(int axis, const Shape& shape) { return static_cast<std::size_t>(3 - shape.axes + axis); }

}  // namespace

/// Position p of the result, along each axis of it, is position of[axis] of the sample: shifted, then mirrored. Then
/// position p of that result is what lies at c + turn * (p - c) * zoom of it, c in the middle.
struct Augmenter::Change {
  std::array<std::size_t, 3> from{0, 1, 2};  // which axis of the sample each axis of the result is
  std::array<bool, 3> mirror{};
  Extent shift{0, 0, 0};
  Matrix turn = kNoTurn;
  double zoom = 1;

  // What vectors are multiplied with: their components follow the axes.
  Matrix of_vectors() const {
    Matrix moved{}, back{};
    for (std::size_t a = 0; a < 3; ++a) moved[a][from[a]] = mirror[a] ? -1 : 1;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t b = 0; b < 3; ++b) back[a][b] = turn[b][a];
    return times(back, moved);
  }

  void resample(const Shape& shape, bool between, Span values, std::vector<float>& copy) const;

  void apply(const Shape& shape, Span values, std::vector<float>& copy) const {
    copy.assign(values.begin(), values.end());
    const Extent& size = shape.spatial;
    const Extent stride{size[1] * size[2] * shape.channels, size[2] * shape.channels, shape.channels};
    std::array<std::vector<Index>, 3> offset;  // by axis: the offset of what each position of the result takes
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (Index p = 0; p < size[axis]; ++p) {
        Index q = (p + shift[axis] + size[axis]) % size[axis];
        if (mirror[axis]) q = size[axis] - 1 - q;
        offset[axis].push_back(q * stride[from[axis]]);
      }
    float* to = values.data();
    for (const Index d : offset[0])
      for (const Index h : offset[1])
        for (const Index w : offset[2]) to = std::copy_n(copy.data() + d + h + w, shape.channels, to);
  }
};

namespace {

/// The two whole positions beside a position along an axis, and how much of the second is taken. Beyond the ends the
/// last one goes on.
struct Between {
  Index low = 0, high = 0;
  float share = 0;
};

Between between_of(double position, Index size, bool between) {
  const double inside = std::clamp(position, 0.0, static_cast<double>(size - 1));
  if (!between) {
    const auto nearest = static_cast<Index>(std::lround(inside));
    return {nearest, nearest, 0};
  }
  const auto low = static_cast<Index>(inside);
  return {low, std::min(low + 1, size - 1), static_cast<float>(inside - static_cast<double>(low))};
}

}  // namespace

// Linear between positions, or the nearest one of classes.
void Augmenter::Change::resample(const Shape& shape, bool between, Span values, std::vector<float>& copy) const {
  copy.assign(values.begin(), values.end());
  const Extent& size = shape.spatial;
  const Index channels = shape.channels;
  const std::array<Index, 3> stride{size[1] * size[2] * channels, size[2] * channels, channels};
  std::array<double, 3> middle{};
  for (std::size_t a = 0; a < 3; ++a) middle[a] = 0.5 * static_cast<double>(size[a] - 1);
  float* to = values.data();
  Extent p{0, 0, 0};
  for (p[0] = 0; p[0] < size[0]; ++p[0])
    for (p[1] = 0; p[1] < size[1]; ++p[1])
      for (p[2] = 0; p[2] < size[2]; ++p[2], to += channels) {
        std::array<Between, 3> at{};
        for (std::size_t a = 0; a < 3; ++a) {
          double position = middle[a];
          for (std::size_t b = 0; b < 3; ++b) position += zoom * turn[a][b] * (static_cast<double>(p[b]) - middle[b]);
          at[a] = between_of(position, size[a], between);
        }
        std::fill_n(to, channels, 0.0F);
        for (int corner = 0; corner < 8; ++corner) {
          Index offset = 0;
          float share = 1;
          for (std::size_t a = 0; a < 3; ++a) {
            const bool high = (corner >> a & 1) != 0;
            offset += (high ? at[a].high : at[a].low) * stride[a];
            share *= high ? at[a].share : 1 - at[a].share;
          }
          for (Index c = 0; share > 0 && c < channels; ++c) to[c] += share * copy[static_cast<std::size_t>(offset + c)];
        }
      }
}

namespace {

/// Which channels are vectors, of how many axes, and in which units.
struct Vectors {
  const std::vector<int>& channels;
  int axes;
  const ChannelMap& units;
};

// The units come off before vectors are turned, and are put on again.
void turn_vectors(const Vectors& of, const Matrix& turn, Index all, Span values) {
  if (of.channels.empty()) return;
  const auto first = static_cast<std::size_t>(3 - of.axes), axes = static_cast<std::size_t>(of.axes);
  const auto scale = [&](int c) { return of.units.scale.empty() ? 1.0F : of.units.scale[static_cast<std::size_t>(c)]; };
  const auto shift = [&](int c) { return of.units.scale.empty() ? 0.0F : of.units.shift[static_cast<std::size_t>(c)]; };
  for (float* at = values.data(); at != values.data() + values.size(); at += all)
    for (std::size_t v = 0; v + axes <= of.channels.size(); v += axes) {
      std::array<double, 3> old{};
      for (std::size_t a = 0; a < axes; ++a) {
        const int c = of.channels[v + a];
        old[first + a] = (at[c] - shift(c)) / scale(c);
      }
      for (std::size_t a = 0; a < axes; ++a) {
        double sum = 0;
        for (std::size_t b = 0; b < 3; ++b) sum += turn[first + a][b] * old[b];
        const int c = of.channels[v + a];
        at[c] = static_cast<float>(sum) * scale(c) + shift(c);
      }
    }
}

void require_vectors(const char* key, const std::vector<int>& channels, const Shape& shape,
                     const Normalisation& units) {
  const auto refuse = [&](const std::string& why) { throw ConfigError(fmt::format("data.vectors.{}: {}", key, why)); };
  if (channels.empty()) return;
  if (shape.axes == 0) refuse("vectors have components along axes, and there are no positions");
  if (std::ssize(channels) % shape.axes != 0)
    refuse(fmt::format("{} channels are no whole vectors; name {} for each, the one along axis 0 first",
                       channels.size(), shape.axes));
  if (units.log1p) refuse(fmt::format("data.normalise.{} takes logarithms, which are no components; remove one", key));
  for (const int c : channels) {
    if (c >= shape.channels)
      refuse(fmt::format("there is no channel {}; {} have {}, counted from 0", c, key, shape.channels));
    if (std::ranges::count(channels, c) > 1) refuse(fmt::format("channel {} is named twice", c));
  }
}

void require_augmentable_at(const Augmentation& settings, const Shape& sample, const Shape& label) {
  const auto refuse = [&](const std::string& key, const std::string& why) {
    throw ConfigError(fmt::format("data.augment.{}: {}", key, why));
  };
  for (const auto& [key, axes] : {std::pair("flip", &settings.flip), std::pair("turn", &settings.turn)})
    for (const int axis : *axes) {
      if (axis >= sample.axes)
        refuse(key, fmt::format("there is no axis {}; samples of {} have {}, counted from 0", axis, to_string(sample),
                                sample.axes));
      if (std::ranges::count(*axes, axis) > 1) refuse(key, fmt::format("axis {} is named twice", axis));
    }
  for (const int axis : settings.turn)
    if (sample.spatial[extent_axis(axis, sample)] != sample.spatial[extent_axis(settings.turn.front(), sample)])
      refuse("turn",
             fmt::format("axes of samples of {} have different sizes, and cannot change places", to_string(sample)));
  if (!settings.shift.empty() && std::ssize(settings.shift) != sample.axes)
    refuse("shift", fmt::format("it has {} entries, and samples of {} have {} axes; give one for each",
                                settings.shift.size(), to_string(sample), sample.axes));
  if (settings.rotate > 0 && sample.axes < 2) refuse("rotate", "there is one axis of positions, and a turn needs two");
  if (settings.moves() && label.axes > 0 && label.spatial != sample.spatial)
    refuse(!settings.flip.empty()    ? "flip"
           : !settings.turn.empty()  ? "turn"
           : !settings.shift.empty() ? "shift"
           : settings.zoom > 0       ? "zoom"
                                     : "rotate",
           fmt::format("labels of {} have other positions than samples of {}, so they cannot be changed with them",
                       to_string(label), to_string(sample)));
}

}  // namespace

void require_augmentable(const DataConfig& data, const Shape& sample, const Shape& label,
                         const std::vector<Extent>& resolutions) {
  require_vectors("samples", data.vectors.samples, sample, data.normalise_samples);
  require_vectors("labels", data.vectors.labels, label, data.normalise_labels);
  if (!data.vectors.labels.empty() && data.train.form.kind != LabelKind::numbers)
    throw ConfigError("data.vectors.labels goes with labels that are numbers; remove it");
  if (!data.augment.any()) return;
  const auto taken = [&](const Shape& whole) { return whole.axes > 0 ? patch_of(data.patch, whole) : whole; };
  require_augmentable_at(data.augment, taken(sample), taken(label));
  for (const Extent& resolution : resolutions)
    require_augmentable_at(data.augment, taken(coarse_shape(sample, resolution)),
                           label.axes > 0 ? taken(coarse_shape(label, resolution, "labels")) : label);
}

Augmenter::Augmenter(const Augmentation& settings, const Shape& sample, const Shape& target, const Extent& resolution,
                     NumberKinds kinds)
    : settings_(settings), sample_(sample), target_(target), kinds_(std::move(kinds)) {
  for (std::size_t axis = 0; axis < settings.shift.size(); ++axis) {
    const std::size_t a = extent_axis(static_cast<int>(axis), sample);
    most_[a] = std::min(settings.shift[axis] / resolution[a], sample.spatial[a] - 1);
  }
}

Augmenter::Change Augmenter::draw(std::uint64_t key) const {
  Rng random(key);
  Change change;
  std::vector<int> left = settings_.turn;
  for (const int axis : settings_.turn) {
    const auto chosen = left.begin() + static_cast<std::ptrdiff_t>(random.below(left.size()));
    change.from[extent_axis(axis, sample_)] = extent_axis(*chosen, sample_);
    left.erase(chosen);
  }
  for (const int axis : settings_.flip) change.mirror[extent_axis(axis, sample_)] = random.below(2) == 1;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (most_[axis] > 0)
      change.shift[axis] =
          static_cast<Index>(random.below(static_cast<std::uint64_t>(2 * most_[axis] + 1))) - most_[axis];
  if (settings_.zoom > 0) change.zoom = std::exp(random.uniform(-1, 1) * std::log1p(settings_.zoom));
  const double most = settings_.rotate * std::numbers::pi / 180;
  const auto first = static_cast<std::size_t>(3 - sample_.axes);
  for (std::size_t a = first; most > 0 && a < 3; ++a)
    for (std::size_t b = a + 1; b < 3; ++b)
      change.turn = times(plane_turn(a, b, random.uniform(-most, most)), change.turn);
  return change;
}

void Augmenter::change_row(const Change& change, Span x, Span target, std::vector<float>& copy) const {
  const bool with_labels = target_.axes > 0;
  change.apply(sample_, x, copy);
  if (with_labels) change.apply(target_, target, copy);
  if (settings_.resamples()) {
    change.resample(sample_, true, x, copy);
    if (with_labels) change.resample(target_, kinds_.label_numbers, target, copy);
  }
  turn_vectors({kinds_.vectors.samples, sample_.axes, kinds_.samples}, change.of_vectors(), sample_.channels, x);
  if (with_labels)
    turn_vectors({kinds_.vectors.labels, target_.axes, kinds_.labels}, change.of_vectors(), target_.channels, target);
}

// One change of contrast and brightness for the sample, then noise of one deviation for all numbers.
void Augmenter::change_numbers(std::uint64_t key, Span x) const {
  if (settings_.noise == 0 && settings_.intensity == 0) return;
  Rng random(mix(key, kNumbers));
  const double factor = 1 + settings_.intensity * random.uniform(-1, 1),
               offset = settings_.intensity * random.uniform(-1, 1);
  const double deviation = settings_.noise * random.uniform();
  const auto channels = static_cast<std::size_t>(sample_.channels), changed = channels - (kinds_.mask ? 1 : 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % channels >= changed) continue;
    const double noise = deviation > 0 ? deviation * random.normal() : 0;
    x[i] = static_cast<float>(x[i] * factor + offset + noise);
  }
}

void Augmenter::change(std::uint64_t key, std::span<const std::int64_t> ids, Span x, Span targets) const {
  const Index width = sample_.per_sample(), outputs = target_.per_sample(), rows = std::ssize(ids);
#pragma omp parallel
  {
    std::vector<float> copy;
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      const std::uint64_t own = mix(key, static_cast<std::uint64_t>(ids[static_cast<std::size_t>(row)]));
      const Span sample = x.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
      if (settings_.moves())
        change_row(draw(own), sample,
                   targets.subspan(static_cast<std::size_t>(row * outputs), static_cast<std::size_t>(outputs)), copy);
      change_numbers(own, sample);
    }
  }
}

}  // namespace mrmf
