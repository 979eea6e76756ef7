: High-voltage activated calcium: Ca.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrCaH
  USEION ca READ eca WRITE ica
  RANGE gbar
}

PARAMETER {
  gbar = 0 (S/cm2)
}

ASSIGNED {
  v (mV)
  eca (mV)
  ica (mA/cm2)
  mInf
  mTau (ms)
  hInf
  hTau (ms)
}

STATE { m h }

BREAKPOINT {
  SOLVE states METHOD cnexp
  ica = gbar * m * m * h * (v - eca)
}

INITIAL {
  rates(v)
  m = mInf
  h = hInf
}

DERIVATIVE states {
  rates(v)
  m' = (mInf - m) / mTau
  h' = (hInf - h) / hTau
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
  LOCAL am, bm, ah, bh
  UNITSOFF
  am = linoid(0.055, v + 27, 3.8)
  bm = 0.94 * exp((-75 - v) / 17)
  mInf = am / (am + bm)
  mTau = 1 / (am + bm)
  ah = 0.000457 * exp((-13 - v) / 50)
  bh = 0.0065 / (exp((-v - 15) / 28) + 1)
  hInf = ah / (ah + bh)
  hTau = 1 / (ah + bh)
  UNITSON
}
