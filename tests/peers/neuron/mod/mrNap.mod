: Persistent sodium: Nap_Et2.
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrNap
  USEION na READ ena WRITE ina
  RANGE gbar
}

PARAMETER {
  gbar = 0 (S/cm2)
}

ASSIGNED {
  v (mV)
  ena (mV)
  ina (mA/cm2)
  mInf
  mTau (ms)
  hInf
  hTau (ms)
}

STATE { m h }

BREAKPOINT {
  SOLVE states METHOD cnexp
  ina = gbar * m * m * m * h * (v - ena)
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
  LOCAL am, bm, ah, bh, qt
  UNITSOFF
  qt = 2.3^((34 - 21) / 10)
  mInf = 1 / (1 + exp(-(v + 52.6) / 4.6))
  am = linoid(0.182, v + 38, 6)
  bm = linoid(0.124, -(v + 38), 6)
  mTau = 6 / (am + bm) / qt
  hInf = 1 / (1 + exp((v + 48.8) / 10))
  ah = linoid(2.88e-6, -(v + 17), 4.63)
  bh = linoid(6.94e-6, v + 64.4, 2.63)
  hTau = 1 / (ah + bh) / qt
  UNITSON
}
