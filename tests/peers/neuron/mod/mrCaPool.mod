: Calcium in a shell under the membrane.
UNITS { (mA) = (milliamp) (mM) = (milli/liter) (um) = (micron) FARADAY = (faraday) (coulomb) }

NEURON {
  SUFFIX mrCaPool
  USEION ca READ ica WRITE cai
  RANGE gamma, decay
}

PARAMETER {
  gamma = 0.05
  decay = 80 (ms)
  depth = 0.1 (um)
  rest = 1e-4 (mM)
}

ASSIGNED { ica (mA/cm2) }

STATE { cai (mM) }

INITIAL { cai = rest }

BREAKPOINT { SOLVE states METHOD cnexp }

DERIVATIVE states {
  UNITSOFF
  cai' = -1e4 * ica * gamma / (2 * FARADAY * depth) - (cai - rest) / decay
  UNITSON
}
