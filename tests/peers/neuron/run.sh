#!/usr/bin/env bash
# Compares `mrmf simulate neuron` with NEURON (PyPI), both at a step of 0.005 ms: tests/peers/neuron/run.sh [BUILD] [--store]
# Installs NEURON in .venv-peers-neuron when it is not there. --store renews reference.txt, which `make test` checks.
set -eu
export NEURON_MODULE_OPTIONS=-nogui
root=$(cd "$(dirname "$0")/../../.." && pwd)
here=$root/tests/peers/neuron
build=$(cd "${1:-$root/build}" && pwd)
venv=$root/.venv-peers-neuron
if [ ! -x "$venv/bin/nrnivmodl" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet neuron==9.0.2 numpy
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PATH=$venv/bin:$PATH nrnivmodl "$here/mod" >nrnivmodl.log 2>&1 || { cat nrnivmodl.log; exit 1; }
g++ -std=c++20 -O2 -fopenmp -I"$root" "$here/export.cpp" "$root/tests/unit/support/neuron_reference.cpp" "$build/libmrmf.a" -lfmt -o export
if [ "${2:-}" = --store ]; then
  ./export cells.json 0.005 2:0 5:1 7:2
  exec "$venv/bin/python" "$here/compare.py" cells.json --store "$here/reference.txt"
fi
./export cells.json 0.005 0:0 0:1 1:0 1:1 2:0 2:1 3:0 3:1 4:0 4:1 5:0 5:1 6:0 6:1 7:0 7:2
"$venv/bin/python" "$here/compare.py" cells.json
