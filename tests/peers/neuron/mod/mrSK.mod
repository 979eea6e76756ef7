: Calcium-activated potassium: SK_E2.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) (mM) = (milli/liter) }

NEURON {
  SUFFIX mrSK
  USEION k READ ek WRITE ik
  USEION ca READ cai
  RANGE gbar
}

PARAMETER { gbar = 0 (S/cm2) }

ASSIGNED {
  v (mV)
  ek (mV)
  ik (mA/cm2)
  cai (mM)
  zInf
}

STATE { z }

BREAKPOINT {
  SOLVE states METHOD cnexp
  ik = gbar * z * (v - ek)
}

INITIAL {
  rates(cai)
  z = zInf
}

DERIVATIVE states {
  rates(cai)
  z' = (zInf - z) / 1
}

PROCEDURE rates(c (mM)) {
  UNITSOFF
  zInf = 1 / (1 + (0.00043 / c)^4.8)
  UNITSON
}
