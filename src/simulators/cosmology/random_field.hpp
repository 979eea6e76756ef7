// Gaussian random initial conditions.
#pragma once

#include <cstdint>

#include "src/simulators/cosmology/fft.hpp"
#include "src/simulators/cosmology/linear_power.hpp"

namespace mrmf::cosmology {

/// The modes of a Gaussian density contrast with mean |mode|^2 = power(k) / side^3 in a periodic box, so that
/// Fft::to_field gives the contrast itself; side in Mpc/h. A mode is a pure function of its three frequencies and the
/// key: grids of any size share the modes they both have, and a slab has those of the whole. The mean and modes at the
/// grid's highest frequency, which have no sign, are zero.
void draw_modes(const LinearPower& power, double side, std::uint64_t key, const Slab& slab, ModeGrid& modes);

}  // namespace mrmf::cosmology
