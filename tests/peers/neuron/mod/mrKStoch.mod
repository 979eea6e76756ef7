: Mean of the stochastic potassium channel StochKv; gbar in pS/um2.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrKStoch
  USEION k READ ek WRITE ik
  RANGE gbar
}

PARAMETER {
  gbar = 0 (S/cm2)
}

ASSIGNED {
  v (mV)
  ek (mV)
  ik (mA/cm2)
  mInf
  mTau (ms)
}

STATE { m }

BREAKPOINT {
  SOLVE states METHOD cnexp
  ik = gbar * 1e-4 * 2.3^1.1 * m * (v - ek)
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
  am = 2.3^1.1 * linoid(0.02, v + 40, 9)
  bm = 2.3^1.1 * linoid(0.002, -(v + 40), 9)
  mInf = am / (am + bm)
  mTau = 1 / (am + bm)
  UNITSON
}
