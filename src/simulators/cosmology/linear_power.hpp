// The linear power spectrum today.
#pragma once

#include "src/simulators/cosmology/transfer.hpp"

namespace mrmf::cosmology {

class LinearPower {
 public:
  explicit LinearPower(const Cosmology& cosmology);
  /// P(k) = A k^n_s T(k)^2 in (Mpc/h)^3 at redshift 0, with A such that sigma(8) is sigma_8; k in h/Mpc, positive.
  double operator()(double k) const;
  /// Standard deviation of the density in spheres of a radius in Mpc/h.
  double sigma(double radius) const;

 private:
  Transfer transfer_;
  double slope_, amplitude_ = 1;
};

}  // namespace mrmf::cosmology
