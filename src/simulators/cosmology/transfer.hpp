// The transfer function of Eisenstein & Hu, ApJ 496, 605 (1998): cold dark matter and baryons, with the wiggles that
// sound waves left. Their equation numbers stand beside the code.
#pragma once

#include "src/simulators/cosmology/linear_theory.hpp"

namespace mrmf::cosmology {

class Transfer {
 public:
  explicit Transfer(const Cosmology& cosmology);
  /// T(k), 1 for k -> 0; k in h/Mpc, positive.
  double operator()(double k) const;
  /// r_s in Mpc: how far sound got until baryons and photons parted.
  double sound_horizon() const { return sound_horizon_; }

 private:
  double baryons(double k, double q) const;
  double dark_matter(double k, double q) const;

  double h_, baryon_fraction_;
  double k_equality_, k_silk_, sound_horizon_;         // 1/Mpc, 1/Mpc, Mpc
  double alpha_c_, beta_c_, alpha_b_, beta_b_, node_;  // suppressions and shifts of the two parts
};

}  // namespace mrmf::cosmology
