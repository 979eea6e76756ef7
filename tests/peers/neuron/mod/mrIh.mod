: Cation current: Ih.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrIh
  NONSPECIFIC_CURRENT i
  RANGE gbar, e_rev
}

PARAMETER {
  gbar = 0 (S/cm2)
  e_rev = 0 (mV)
}

ASSIGNED {
  v (mV)
  i (mA/cm2)
  mInf
  mTau (ms)
}

STATE { m }

BREAKPOINT {
  SOLVE states METHOD cnexp
  i = gbar * m * (v - e_rev)
}

INITIAL {
  rates(v)
  m = mInf
}

DERIVATIVE states {
  rates(v)
  m' = (mInf - m) / mTau
}

FUNCTION linoid(a, x, k) {
  UNITSOFF
  if (fabs(x / k) < 1e-6) {
    linoid = a * k * (1 + x / k / 2)
  } else {
    linoid = a * x / (1 - exp(-x / k))
  }
  UNITSON
}

PROCEDURE rates(v (mV)) {
  LOCAL am, bm
  UNITSOFF
  am = linoid(0.00643, -(v + 154.9), 11.9)
  bm = 0.193 * exp(v / 33.1)
  mInf = am / (am + bm)
  mTau = 1 / (am + bm)
  UNITSON
}
