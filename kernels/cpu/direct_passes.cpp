#include "kernels/cpu/direct_passes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

namespace mrmf::cpu {
namespace {

/// Whether the second and third axis have less padding than taps.
bool little_padding(const ConvGeometry& c) {
  const auto at_most = [](Index pad, Index kernel) { return pad >= 0 && pad < kernel; };
  return std::ranges::all_of(std::array{1U, 2U}, [&](std::size_t a) {
    return at_most(c.pad_before[a], c.kernel[a]) && at_most(c.pad_after[a], c.kernel[a]);
  });
}

/// Winograd's kernels take four positions along the last axis, and rows to fill the registers.
bool winograd_serves(const ConvGeometry& c) {
  constexpr Index least_rows = 6, least_width = 4;
  const Extent one{1, 1, 1};
  return c.stride == one && little_padding(c) && c.kernel[2] == 3 && std::min(c.out()[1], c.in[1]) >= least_rows &&
         std::min(c.out()[2], c.in[2]) >= least_width;
}

bool amx_serves(const ConvGeometry& c) {
  return has_amx() && little_padding(c) && c.in[2] * c.in_channels % direct::amx_kernels().fp32.lanes == 0;
}

const Kernels* kernels_of(DirectKernels kernels, const ConvGeometry& c) {
  using Algorithm = DirectKernels::Algorithm;
  if (kernels.set > instruction_set()) return nullptr;
  const direct::KernelSet& of =
      of_set(kernels.set, direct::generic_kernels, direct::avx2_kernels, direct::avx512_kernels)();
  const bool rows = c.kernel[1] == 3 && c.stride == Extent{1, 1, 1};  // for Winograd's along the second axis
  const bool winograd = winograd_serves(c), amx = amx_serves(c);
  switch (kernels.algorithm) {
    case Algorithm::plain: return &of.plain;
    case Algorithm::winograd: return winograd ? &of.winograd : nullptr;
    case Algorithm::winograd_planes: return winograd && rows ? &of.winograd_planes : nullptr;
    case Algorithm::winograd_squares: return winograd && rows ? &of.winograd_squares : nullptr;
    case Algorithm::amx: return amx ? &direct::amx_kernels().fp32 : nullptr;
    case Algorithm::amx_winograd: return amx && rows ? &direct::amx_kernels().winograd : nullptr;
    case Algorithm::amx_bf16: return amx ? &direct::amx_kernels().bf16 : nullptr;
  }
  return nullptr;
}

/// A plane must have enough positions to be worth a pass over the weight gradient.
bool supported(const ConvGeometry& c, const Kernels& kernels) {
  constexpr Index least_positions = 64;
  const Extent out = c.out(), one{1, 1, 1};
  return c.dilation == one && c.out_channels % kernels.lanes == 0 && out[1] * out[2] >= least_positions;
}

}  // namespace

const Kernels* find_kernels(DirectKernels kernels, const ConvGeometry& geometry) {
  const Kernels* const found = kernels_of(kernels, geometry);
  return found != nullptr && supported(geometry, *found) ? found : nullptr;
}

PassShape forward_of(const ConvGeometry& c) {
  PassShape shape{c.in_channels, c.out_channels, c.bias,   c.in,    c.pad_before,
                  c.pad_after,   c.stride,       c.kernel, c.out(), {1, 1, 1}};
  Lattice all{{}, c.out(), c.kernel};
  for (Index tap = 0; tap < product(c.kernel); ++tap) all.taps.push_back(tap * c.in_channels);
  shape.lattices.push_back(std::move(all));
  return shape;
}

namespace {

/// One axis of a data gradient's lattice. Position first + a * stride of dx meets the taps whose numbers leave the
/// remainder `tap` by the stride; their last one meets position a - before of dy.
struct LatticeAxis {
  Index out, taps, tap, before;
  LatticeAxis(const ConvGeometry& c, std::size_t a, Index first)
      : out((c.in[a] - first + c.stride[a] - 1) / c.stride[a]),
        taps(0),
        tap((first + c.pad_before[a]) % c.stride[a]),
        before(0) {
    taps = tap < c.kernel[a] ? (c.kernel[a] - tap + c.stride[a] - 1) / c.stride[a] : 0;
    before = taps - 1 - (first + c.pad_before[a] - tap) / c.stride[a];
  }
};

/// The lattice that begins at `first`; the shifts count from `before` positions in front of dy.
Lattice lattice_at(const ConvGeometry& c, const Extent& first, const Extent& before) {
  const std::array<LatticeAxis, 3> axes{LatticeAxis{c, 0, first[0]}, LatticeAxis{c, 1, first[1]},
                                        LatticeAxis{c, 2, first[2]}};
  Lattice l{first};
  for (std::size_t a = 0; a < 3; ++a)
    l.out[a] = axes[a].out, l.kernel[a] = axes[a].taps, l.shift[a] = before[a] - axes[a].before;
  const auto number = [&](std::size_t a, Index i) { return axes[a].tap + (axes[a].taps - 1 - i) * c.stride[a]; };
  for (Index i = 0; i < l.kernel[0]; ++i)
    for (Index j = 0; j < l.kernel[1]; ++j)
      for (Index k = 0; k < l.kernel[2]; ++k)
        l.taps.push_back(((number(0, i) * c.kernel[1] + number(1, j)) * c.kernel[2] + number(2, k)) * c.in_channels);
  return l;
}

}  // namespace

PassShape data_gradient_of(const ConvGeometry& c) {
  PassShape shape{c.out_channels, c.in_channels, c.bias, c.out(), {}, {}, {1, 1, 1}, {}, c.in, c.stride};
  Extent lattices{};
  for (std::size_t a = 0; a < 3; ++a) {
    lattices[a] = std::min(c.stride[a], c.in[a]);
    constexpr Index none = std::numeric_limits<Index>::min();
    if (a == 0) shape.before[a] = none;  // may be negative: planes before the first are not read
    Index most = 0;                      // positions of a lattice
    for (Index first = 0; first < lattices[a]; ++first)
      if (const LatticeAxis axis(c, a, first); axis.taps > 0) {
        shape.before[a] = std::max(shape.before[a], axis.before);
        most = std::max(most, axis.out);
      }
    if (shape.before[a] == none) shape.before[a] = 0;
    for (Index first = 0; first < lattices[a]; ++first)
      if (const LatticeAxis axis(c, a, first); axis.taps > 0)
        shape.window[a] = std::max(shape.window[a], shape.before[a] - axis.before + axis.taps);
    shape.after[a] = std::max<Index>(0, most - 1 + shape.window[a] - shape.before[a] - shape.in[a]);
  }
  for (Index i = 0; i < lattices[0]; ++i)
    for (Index j = 0; j < lattices[1]; ++j)
      for (Index k = 0; k < lattices[2]; ++k)
        if (Lattice l = lattice_at(c, {i, j, k}, shape.before); !l.taps.empty()) shape.lattices.push_back(std::move(l));
  return shape;
}

bool PassShape::all_meet_taps() const {
  Index positions = 1;  // first ones of lattices
  for (std::size_t a = 0; a < 3; ++a) positions *= std::min(apart[a], to[a]);
  return std::ssize(lattices) == positions;
}

namespace {

/// The kernels' geometry of a pass with the taps and outputs of one of its lattices.
direct::Geometry geometry_of(const direct::Geometry& copies, const PassShape& shape, const Lattice& lattice) {
  direct::Geometry g = copies;
  std::ranges::copy(lattice.kernel, g.kernel);
  g.rows = lattice.out[1], g.width = lattice.out[2];
  g.row_shift = lattice.shift[1], g.column_shift = lattice.shift[2] * shape.in_channels;
  g.row = lattice.kernel[2] * shape.in_channels, g.depth = lattice.kernel[0] * lattice.kernel[1] * g.row;
  return g;
}

/// Positions of a padded axis in units of the stride: those that the windows reach, and all of the input.
Index padded_units(const PassShape& shape, std::size_t a, Index positions) {
  const Index stride = shape.stride[a], reach = (positions - 1) * stride + shape.window[a];
  return (std::max(reach, shape.before[a] + shape.in[a]) + stride - 1) / stride;
}

}  // namespace

Sweep::Sweep(const Kernels& of, const PassShape& s, bool together)
    : kernels(of),
      in_planes(s.in[0]),
      planes_before(s.before[0]),
      planes(0),
      plane_stride(s.stride[0]),
      input_plane(s.in[1] * s.in[2] * s.in_channels),
      input_sample(s.in[0] * input_plane),
      output_plane(s.apart[0] * s.to[1] * s.to[2] * s.out_channels),
      output_sample(s.to[0] * s.to[1] * s.to[2] * s.out_channels) {
  g.in_channels = s.in_channels, g.out_channels = s.out_channels;
  g.bias = s.bias;
  std::ranges::copy(s.window, g.kernel);
  for (const Lattice& l : s.lattices) {
    planes = std::max(planes, l.out[0]);
    g.rows = std::max<long>(g.rows, l.out[1]), g.width = std::max<long>(g.width, l.out[2]);
  }
  g.in_rows = s.in[1], g.in_width = s.in[2];
  g.rows_before = s.before[1], g.columns_before = s.before[2];
  g.row_stride = s.stride[1], g.step = s.stride[2] * s.in_channels;
  g.padded_rows = padded_units(s, 1, g.rows), g.padded_width = padded_units(s, 2, g.width);
  g.row = s.window[2] * s.in_channels, g.depth = s.window[0] * s.window[1] * g.row;
  g.padded_out = (s.out_channels + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  g.y_row = s.apart[1] * s.to[2] * s.out_channels, g.y_column = s.apart[2] * s.out_channels;
  g.together = g.there = 1;
  if (together && planes_before == 0 && in_planes == planes) g.together = kernels.together(g);
  sizes = kernels.sizes(g);
  for (const Lattice& l : s.lattices)
    parts.push_back({geometry_of(g, s, l), l.shift[0], l.out[0],
                     ((l.first[0] * s.to[1] + l.first[1]) * s.to[2] + l.first[2]) * s.out_channels});
}

namespace {

/// Rows [first, first + rows) of every plane of the lattices as a pass of their own.
Sweep band_of(const Sweep& whole, PassShape s, Index first, Index rows) {
  const Index from = first * s.stride[1] - s.before[1], to = from + (rows - 1) * s.stride[1] + s.window[1];
  const Index begin = std::clamp<Index>(from, 0, s.in[1]), end = std::clamp<Index>(to, begin, s.in[1]);
  const Index input_row = begin * s.in[2] * s.in_channels;
  s.in[1] = end - begin, s.before[1] = begin - from, s.after[1] = to - end;
  for (Lattice& l : s.lattices) l.out[1] = std::clamp<Index>(l.out[1] - first, 0, rows);
  Sweep band(whole.kernels, s, false);
  band.input_plane = whole.input_plane, band.input_sample = whole.input_sample;
  band.input_row = input_row, band.output_row = first * whole.g.y_row;
  return band;
}

}  // namespace

Index cache_room() {
  static const long l2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  constexpr Index usual = Index{512} << 10;
  return (l2 > 0 ? static_cast<Index>(l2) : usual) / 2;
}

Bands::Bands(const Kernels& kernels, const PassShape& shape, Index room, long direct::Sizes::*plane)
    : whole_(kernels, shape, true) {
  const Index bytes = whole_.sizes.*plane * shape.window[0] * 4, rows = whole_.g.rows;
  const Index of_band = rows_of_band(shape, room > 0 ? room : cache_room(), bytes);
  for (Index first = 0; first < rows; first += of_band)
    bands_.push_back(of_band == rows ? whole_ : band_of(whole_, shape, first, std::min(of_band, rows - first)));
}

/// Planes that are taken together are not cut. Otherwise as many rows as there is room for, but some, also in the
/// last band, and no fewer than there are of padding: so that the bands between see none.
Index Bands::rows_of_band(const PassShape& shape, Index room, Index bytes) const {
  const Index least = (std::max({Index{8}, shape.before[1], shape.after[1]}) + 3) / 4 * 4;
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

float* const* PlaneRing::together(const Sweep& sweep, const direct::Geometry& g, const PlaneInput& input, Index first) {
  const float* const from = input.x + first * sweep.input_plane;
  planes_[0] = in_place(sweep, input, from);
  if (planes_[0] == nullptr) copy_(g, from, input.map, planes_[0] = copies_);
  return planes_.data();
}

float* const* PlaneRing::under(const Sweep& band, const PlaneInput& input, Index unit, Index bands, Index plane) {
  for (Index i = 0; i < band.g.kernel[0]; ++i) {
    const Index at = plane * band.plane_stride - band.planes_before + i;
    planes_[static_cast<std::size_t>(i)] =
        at >= 0 && at < band.in_planes ? copy(band, input, {unit, unit / bands, at}) : nullptr;
  }
  return planes_.data();
}

void PlaneRing::append_form(const direct::Geometry& g, std::vector<Index>& form) const {
  form.insert(form.end(), {reinterpret_cast<Index>(copy_), plane_, g.in_channels, g.kernel[0], g.kernel[1]});
  form.insert(form.end(), {g.kernel[2], g.rows, g.width, g.in_rows, g.in_width, g.rows_before});
  form.insert(form.end(), {g.columns_before, g.row_stride, g.step, g.padded_rows, g.padded_width, g.together});
}

float* PlaneRing::in_place(const Sweep& sweep, const PlaneInput& input, const float* plane) {
  return input.map == nullptr && sweep.needs_no_copy() ? const_cast<float*>(plane) : nullptr;  // nobody writes there
}

float* PlaneRing::copy(const Sweep& band, const PlaneInput& input, const InputPlane& plane) {
  const Index slot = plane.number % band.g.kernel[0], known = plane.unit * band.in_planes + plane.number;
  const float* from = input.x + plane.sample * band.input_sample + plane.number * band.input_plane + band.input_row;
  if (float* const there = in_place(band, input, from)) return there;
  float* to = copies_ + slot * plane_;
  if (std::exchange(held_[static_cast<std::size_t>(slot)], known) != known) copy_(band.g, from, input.map, to);
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

void PassRings::start(PassRings* with) {
  for (OfThread& of : threads_) of.placed = false;
  with_ = with;
  if (with == nullptr) return;
  with->start();
  form_of_both_ = form_;
  form_of_both_.insert(form_of_both_.end(), with->form_.begin(), with->form_.end());
}

/// Where their memory ends.
float* PassRings::OfThread::place(float* at) {
  placed = true;
  for (PlaneRing& ring : rings) ring.start(std::exchange(at, at + ring.floats()));
  return end = at;
}

std::vector<PlaneRing>& PassRings::of(int thread, Workspace& memory) {
  const auto number = static_cast<std::size_t>(thread);
  OfThread& of = threads_[number];
  if (of.placed) return of.rings;
  if (with_ == nullptr)
    of.place(memory.of_thread(thread, floats_, form_));
  else
    of.end = with_->threads_[number].place(of.place(memory.of_thread(thread, floats_ + with_->floats_, form_of_both_)));
  return of.rings;
}

Pass::Pass(const Kernels& kernels, PassShape of, Index room, bool for_weights, int threads)
    : shape(std::move(of)),
      bands(kernels, shape, room, for_weights ? &direct::Sizes::plane_for_weights : &direct::Sizes::plane),
      rings(bands, for_weights, threads) {
  for (const Sweep::Part& part : whole().parts) {
    packed_at.push_back(packed);
    packed += whole_lines(kernels.sizes(part.g).packed);
  }
}

void Pass::clear(Index band, Index plane, float* sample) const {
  const Sweep& sweep = whole();
  const Index apart = shape.apart[0], floats = sweep.output_plane / apart;  // of a plane of the output
  const Index last = plane + 1 == sweep.planes ? shape.to[0] : (plane + 1) * apart;
  const Index begin = bands[band].output_row, end = band + 1 == bands.count() ? floats : bands[band + 1].output_row;
  for (Index p = plane * apart; p < last; ++p) std::fill(sample + p * floats + begin, sample + p * floats + end, 0.0F);
}

}  // namespace mrmf::cpu
