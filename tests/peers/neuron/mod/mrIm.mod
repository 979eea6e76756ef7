: Muscarinic potassium: Im.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrIm
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
  ik = gbar * m * (v - ek)
}

INITIAL {
  rates(v)
  m = mInf
}

DERIVATIVE states {
  rates(v)
  m' = (mInf - m) / mTau
}

PROCEDURE rates(v (mV)) {
  LOCAL am, bm, qt
  UNITSOFF
  qt = 2.3^((34 - 21) / 10)
  am = 0.0033 * exp(0.1 * (v + 35))
  bm = 0.0033 * exp(-0.1 * (v + 35))
  mInf = am / (am + bm)
  mTau = 1 / (am + bm) / qt
  UNITSON
}
