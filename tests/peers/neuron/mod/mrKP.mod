: Persistent potassium: K_Pst.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrKP
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
  ik = gbar * m * m * h * (v - ek)
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
  mInf = 1 / (1 + exp(-(u + 1) / 12))
  if (u < -50) {
    mTau = (1.25 + 175.03 * exp(0.026 * u)) / qt
  } else {
    mTau = (1.25 + 13 * exp(-0.026 * u)) / qt
  }
  hInf = 1 / (1 + exp((u + 54) / 11))
  hTau = (360 + (1010 + 24 * (u + 55)) * exp(-((u + 75) / 48)^2)) / qt
  UNITSON
}
