// How structure grows with the scale factor a = 1 / (1 + z) in a flat universe of matter and a cosmological constant.
#pragma once

namespace mrmf::cosmology {

class Growth {
 public:
  explicit Growth(double omega_m);

  double expansion(double a) const;  ///< H(a) / H_0
  double linear(double a) const;     ///< D(a), 1 at a = 1; 0 at a = 0
  /// Of the second-order displacement, in units of it at a = 1; the usual fit D^2 Omega_m(a)^(-1/143).
  double second(double a) const;
  double omega_m() const { return omega_m_; }

 private:
  double unscaled(double a) const;

  double omega_m_, scale_;
};

}  // namespace mrmf::cosmology
