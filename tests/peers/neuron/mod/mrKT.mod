: Transient potassium: K_Tst.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrKT
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
  hInf
  hTau (ms)
}

STATE { m h }

BREAKPOINT {
  SOLVE states METHOD cnexp
  ik = gbar * m * m * m * m * h * (v - ek)
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
  LOCAL qt, u
  UNITSOFF
  qt = 2.3^((34 - 21) / 10)
  u = v + 10
  mInf = 1 / (1 + exp(-u / 19))
  mTau = (0.34 + 0.92 * exp(-((u + 71) / 59)^2)) / qt
  hInf = 1 / (1 + exp((u + 66) / 10))
  hTau = (8 + 49 * exp(-((u + 73) / 23)^2)) / qt
  UNITSON
}
