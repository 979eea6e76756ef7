: Low-voltage activated calcium: Ca_LVAst.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrCaL
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

PROCEDURE rates(v (mV)) {
  LOCAL qt, u
  UNITSOFF
  qt = 2.3^((34 - 21) / 10)
  u = v + 10
  mInf = 1 / (1 + exp(-(u + 30) / 6))
  mTau = (5 + 20 / (1 + exp((u + 25) / 5))) / qt
  hInf = 1 / (1 + exp((u + 80) / 6.4))
  hTau = (20 + 50 / (1 + exp((u + 40) / 7))) / qt
  UNITSON
}
