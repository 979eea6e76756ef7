// Passes of a convolution over the direct kernels (vector_kernels.hpp): which of them serve, how their planes are cut
// into bands of rows, and the copies of input planes that the kernels read.
#pragma once

#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/operations.hpp"

namespace mrmf::cpu {

using direct::Kernels;

/// Null where they do not serve this convolution.
const Kernels* find_kernels(DirectKernels kernels, const ConvGeometry& geometry);

/// Positions of a pass's output at regular distances, which one convolution makes. Those of a data gradient that leave
/// one remainder by the strides meet the same taps.
struct Lattice {
  Extent first{}, out{};     ///< its first position in the output, and how many it has
  Extent kernel{};           ///< taps
  Extent shift{};            ///< where they begin in the window that the pass reads under a position
  std::vector<long> taps{};  ///< direct::Weights::taps
};

/// One pass: a convolution, or a data gradient in the form of convolutions of dy.
struct PassShape {
  Index in_channels = 0, out_channels = 0;
  bool bias = false;
  Extent in{}, before{}, after{};   ///< positions of input and of padding; negative along the first axis: not read
  Extent stride{};                  ///< of the input, from one position of a lattice to the next
  Extent window{};                  ///< positions of input under a position of the output
  Extent to{}, apart{};             ///< positions of the output, and their distance within a lattice
  std::vector<Lattice> lattices{};  ///< none of those that meet no tap: their outputs are zero
  bool all_meet_taps() const;       ///< whether every position of the output meets a tap
};
PassShape forward_of(const ConvGeometry& c);
PassShape data_gradient_of(const ConvGeometry& c);

/// A pass on these kernels.
struct Sweep {
  const Kernels& kernels;
  direct::Geometry g{};  ///< of the copies; lattices differ from it in their taps and outputs
  direct::Sizes sizes{};
  struct Part {
    direct::Geometry g{};
    Index first_plane, planes;  ///< of the window, and of the lattice
    Index at;                   ///< floats: where the lattice begins in the output
  };
  std::vector<Part> parts;                 ///< by lattice; of a band maybe without rows
  Index in_planes, planes_before, planes;  ///< planes of input, of padding, and of the lattice that has most
  Index plane_stride;                      ///< planes of input from one plane to the next
  Index input_plane, input_sample;         ///< floats
  Index output_plane, output_sample;       ///< floats from one plane of a lattice to the next, and of a sample
  Index input_row = 0, output_row = 0;     ///< where a band's rows begin in a plane: floats

  /// Whether the kernels read planes of the input where they are, unless these pass a map.
  bool needs_no_copy() const { return kernels.reads_input != nullptr && kernels.reads_input(g); }
  /// Whether each plane of the output comes from one of the input, with the same number.
  bool planes_alone() const {
    return g.kernel[0] == 1 && plane_stride == 1 && planes_before == 0 && planes == in_planes;
  }

  /// together: whether planes may be taken together.
  Sweep(const Kernels& of, const PassShape& shape, bool together);
};

/// Bytes for a thread's copies of planes: half of the L2 cache, whose rest is for weights and outputs.
Index cache_room();

/// Planes in bands of rows, so that the copies of the input planes under a band stay in the L2 cache. Each output is
/// computed as without bands: they begin at multiples of four rows, where tiles of Winograd's kernels do.
class Bands {
 public:
  /// room: bytes for the copies; 0: cache_room(). plane: copies' size.
  Bands(const Kernels& kernels, const PassShape& shape, Index room, long direct::Sizes::*plane);
  const Sweep& whole() const { return whole_; }
  Index count() const { return std::ssize(bands_); }
  const Sweep& operator[](Index band) const { return bands_[static_cast<std::size_t>(band)]; }
  /// Bands of one kind have their padding at the same places: the first, the last, and those between.
  std::size_t kind(Index band) const { return band == 0 ? 0 : band + 1 == count() ? 1 : 2; }

 private:
  Index rows_of_band(const PassShape& shape, Index room, Index bytes) const;

  Sweep whole_;
  std::vector<Sweep> bands_;
};

/// The input x, passed through `map` unless that is null.
struct PlaneInput {
  const float* x;
  const direct::Affine* map = nullptr;
};

/// One thread's copies of the input planes under an output plane, of bands of one kind. The next output plane shares
/// all but one of them. Or its copy of planes that are taken together. Where the kernels need no copy it gives the
/// planes themselves, which nobody may write to.
class PlaneRing {
 public:
  PlaneRing(const Sweep& sweep, bool for_weights);
  Index floats() const { return whole_lines(std::ssize(held_) * plane_); }
  /// Where the copies are to lie. What is padding in them is zero.
  void start(float* copies);
  /// Copies the planes [first, first + g.there), counted over all samples: kernels of one plane in depth need no
  /// others.
  float* const* together(const Sweep& sweep, const direct::Geometry& g, const PlaneInput& input, Index first);
  /// The input planes under output plane `plane` of a sample's band; `unit` counts the bands over all samples of x, of
  /// which each has so many.
  float* const* under(const Sweep& band, const PlaneInput& input, Index unit, Index bands, Index plane);
  /// Appends what tells where the padding lies in the copies.
  void append_form(const direct::Geometry& g, std::vector<Index>& form) const;

 private:
  struct InputPlane {
    Index unit, sample, number;
  };
  float* copy(const Sweep& band, const PlaneInput& input, const InputPlane& plane);
  /// What the kernels read for a copy of this plane if they need none, else null.
  static float* in_place(const Sweep& sweep, const PlaneInput& input, const float* plane);

  decltype(Kernels::copy) copy_;
  Index plane_;  // floats
  float* copies_ = nullptr;
  std::vector<Index> held_;  // the plane in each slot
  std::vector<float*> planes_;
};

/// The rings of a pass: of each thread one for each kind of bands. They lie in the workspace.
class PassRings {
 public:
  PassRings(const Bands& bands, bool for_weights, int threads);
  Index floats() const { return floats_; }  ///< of a thread
  /// with: rings of a pass that runs at the same time; they lie behind these.
  void start(PassRings* with = nullptr);
  /// Those of this thread, between start() and the end of the pass.
  std::vector<PlaneRing>& of(int thread, Workspace& memory);
  /// The thread's memory behind them, as far as that was reserved, after of().
  float* behind(int thread) const { return threads_[static_cast<std::size_t>(thread)].end; }

 private:
  struct alignas(64) OfThread {
    bool placed = false;
    float* end = nullptr;
    std::vector<PlaneRing> rings;
    float* place(float* at);
  };
  std::vector<Index> form_, form_of_both_;
  PassRings* with_ = nullptr;
  Index floats_ = 0;
  std::vector<OfThread> threads_;
};

/// A pass: its planes in bands, its rings, and where each lattice's packed weights lie.
struct Pass {
  PassShape shape;
  Bands bands;
  PassRings rings;
  std::vector<Index> packed_at;
  Index packed = 0;  ///< floats of all packed weights

  Pass(const Kernels& kernels, PassShape of, Index room, bool for_weights, int threads);
  const Sweep& whole() const { return bands.whole(); }
  /// Sets to zero the rows of a sample's output that lie between this band of a lattice's plane and the next one, or
  /// the plane's end, in all planes up to the lattice's next one: for outputs that meet no tap.
  void clear(Index band, Index plane, float* sample) const;
};

}  // namespace mrmf::cpu
