: Transient sodium: NaTa_t (shift 0) and NaTs2_t (shift 6).
UNITS { (mV) = (millivolt) (mA) = (milliamp) (S) = (siemens) }

NEURON {
  SUFFIX mrNaT
  USEION na READ ena WRITE ina
  RANGE gbar, shift
}

PARAMETER {
  gbar = 0 (S/cm2)
  shift = 0
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
  am = linoid(0.182, v + 38 - shift, 6)
  bm = linoid(0.124, -(v + 38 - shift), 6)
  mInf = am / (am + bm)
  mTau = 1 / (am + bm) / qt
  ah = linoid(0.015, -(v + 66 - shift), 6)
  bh = linoid(0.015, v + 66 - shift, 6)
  hInf = ah / (ah + bh)
  hTau = 1 / (ah + bh) / qt
  UNITSON
}
