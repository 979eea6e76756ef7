#include "kernels/cpu/direct_passes.hpp"

#include <unistd.h>

#include <algorithm>

namespace mrmf::cpu {

Sweep::Sweep(const Kernels& of, const ConvGeometry& c, bool together)
    : kernels(of),
      in_planes(c.in[0]),
      planes_before(c.pad_before[0]),
      planes(c.out()[0]),
      input_plane(c.in[1] * c.in[2] * c.in_channels),
      output_plane(c.out()[1] * c.out()[2] * c.out_channels) {
  const Extent out = c.out();
  g.in_channels = c.in_channels, g.out_channels = c.out_channels;
  g.bias = c.bias;
  std::ranges::copy(c.kernel, g.kernel);
  g.rows = out[1], g.width = out[2];
  g.in_rows = c.in[1], g.in_width = c.in[2];
  g.rows_before = c.pad_before[1], g.columns_before = c.pad_before[2];
  g.padded_width = out[2] + c.kernel[2] - 1;
  g.row = c.kernel[2] * c.in_channels, g.depth = c.kernel[0] * c.kernel[1] * g.row;
  g.padded_out = (c.out_channels + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  g.together = g.there = 1;
  if (together && c.pad_before[0] == 0 && c.pad_after[0] == 0) g.together = kernels.together(g);
  sizes = kernels.sizes(g);
}

namespace {

/// Rows [first, first + rows) of every output plane as a convolution of their own.
Sweep band_of(const Sweep& whole, ConvGeometry c, Index first, Index rows) {
  const Index from = first - c.pad_before[1], to = from + rows + c.kernel[1] - 1;  // input rows, maybe of the padding
  const Index begin = std::max<Index>(0, from), end = std::min(c.in[1], to);
  const Index input_row = begin * c.in[2] * c.in_channels, output_row = first * c.out()[2] * c.out_channels;
  c.in[1] = end - begin, c.pad_before[1] = begin - from, c.pad_after[1] = to - end;
  Sweep band(whole.kernels, c, false);
  band.input_plane = whole.input_plane, band.output_plane = whole.output_plane;
  band.input_row = input_row, band.output_row = output_row;
  return band;
}

Index usual_room() {
  static const long l2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  constexpr Index usual = Index{512} << 10;
  return (l2 > 0 ? static_cast<Index>(l2) : usual) / 2;
}

}  // namespace

Bands::Bands(const Kernels& kernels, const ConvGeometry& c, Index room, long direct::Sizes::*plane)
    : whole_(kernels, c, true) {
  const Index bytes = whole_.sizes.*plane * c.kernel[0] * 4, rows = whole_.g.rows;
  const Index of_band = rows_of_band(c, room > 0 ? room : usual_room(), bytes);
  for (Index first = 0; first < rows; first += of_band)
    bands_.push_back(of_band == rows ? whole_ : band_of(whole_, c, first, std::min(of_band, rows - first)));
}

/// Planes that are taken together are not cut. Otherwise as many rows as there is room for, but some, also in the
/// last band, and no fewer than there are of padding: so that the bands between see none.
Index Bands::rows_of_band(const ConvGeometry& c, Index room, Index bytes) const {
  const Index least = (std::max({Index{8}, c.pad_before[1], c.pad_after[1]}) + 3) / 4 * 4;
  const Index rows = whole_.g.rows;
  if (whole_.g.together > 1) return rows;
  for (Index bands = std::min(rows / least, (bytes + room - 1) / room); bands > 1; --bands) {
    const Index of_band = ((rows + bands - 1) / bands + 3) / 4 * 4;
    if (of_band >= least && (rows % of_band == 0 || rows % of_band >= least)) return of_band;
  }
  return rows;
}

PlaneRing::PlaneRing(const Sweep& sweep, bool for_weights)
    : copy_(for_weights ? sweep.kernels.copy_for_weights : sweep.kernels.copy),
      plane_(for_weights ? sweep.sizes.plane_for_weights : sweep.sizes.plane),
      held_(static_cast<std::size_t>(sweep.g.kernel[0]), -1),
      planes_(held_.size()) {}

void PlaneRing::start(float* copies) {
  copies_ = copies;
  std::ranges::fill(held_, -1);
}

const float* const* PlaneRing::together(const Sweep& sweep, const direct::Geometry& g, const PlaneInput& input,
                                        Index first) {
  copy_(g, input.x + first * sweep.input_plane, input.map, copies_);
  planes_[0] = copies_;
  return planes_.data();
}

const float* const* PlaneRing::under(const Sweep& band, const PlaneInput& input, Index unit, Index bands, Index plane) {
  for (Index i = 0; i < band.g.kernel[0]; ++i) {
    const Index at = plane - band.planes_before + i;
    planes_[static_cast<std::size_t>(i)] =
        at >= 0 && at < band.in_planes ? copy(band, input, {unit, unit / bands, at}) : nullptr;
  }
  return planes_.data();
}

void PlaneRing::append_form(const direct::Geometry& g, std::vector<Index>& form) const {
  form.insert(form.end(), {reinterpret_cast<Index>(copy_), plane_, g.in_channels, g.kernel[0], g.kernel[1]});
  form.insert(form.end(), {g.kernel[2], g.rows, g.width, g.in_rows, g.in_width, g.rows_before});
  form.insert(form.end(), {g.columns_before, g.padded_width, g.together});
}

const float* PlaneRing::copy(const Sweep& band, const PlaneInput& input, const InputPlane& plane) {
  const Index slot = plane.number % band.g.kernel[0], known = plane.unit * band.in_planes + plane.number;
  float* to = copies_ + slot * plane_;
  if (std::exchange(held_[static_cast<std::size_t>(slot)], known) != known)
    copy_(band.g, input.x + (plane.sample * band.in_planes + plane.number) * band.input_plane + band.input_row,
          input.map, to);
  return to;
}

PassRings::PassRings(const Bands& bands, bool for_weights, int threads) : threads_(static_cast<std::size_t>(threads)) {
  for (const Index band : {Index{0}, bands.count() - 1, Index{1}}) {
    if (std::ssize(threads_[0].rings) >= bands.count()) continue;
    const PlaneRing ring(bands[band], for_weights);
    ring.append_form(bands[band].g, form_);
    floats_ += ring.floats();
    for (OfThread& of : threads_) of.rings.push_back(ring);
  }
}

void PassRings::start() {
  for (OfThread& of : threads_) of.placed = false;
}

std::vector<PlaneRing>& PassRings::of(int thread, Workspace& memory) {
  OfThread& of = threads_[static_cast<std::size_t>(thread)];
  if (std::exchange(of.placed, true)) return of.rings;
  float* at = memory.of_thread(thread, floats_, form_);
  for (PlaneRing& ring : of.rings) ring.start(std::exchange(at, at + ring.floats()));
  return of.rings;
}

}  // namespace mrmf::cpu
