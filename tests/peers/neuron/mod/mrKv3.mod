: Fast potassium: SKv3_1.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrKv3
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
  UNITSOFF
  mInf = 1 / (1 + exp(-(v - 18.7) / 9.7))
  mTau = 4 / (1 + exp(-(v + 46.56) / 44.14))
  UNITSON
}
