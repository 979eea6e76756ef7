: Slowly inactivating potassium: KdShu2007.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrKd
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
  hInf
  hTau (ms)
}

STATE { m h }

BREAKPOINT {
  SOLVE states METHOD cnexp
  i = gbar * m * h * (v - e_rev)
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

PROCEDURE rates(v (mV)) {
  UNITSOFF
  mInf = 1 - 1 / (1 + exp((v + 43) / 8))
  mTau = 0.6
  hInf = 1 / (1 + exp((v + 67) / 7.3))
  hTau = 1500
  UNITSON
}
