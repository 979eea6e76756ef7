#!/usr/bin/env bash
# Makes the wheel and installs it with pip where nothing is but Python, glibc and what every manylinux wheel may ask for:
# no MPI, no HDF5, no compiler, no network. There the command runs, alone and under the wheel's own mpirun, and the package
# trains and predicts. Usage: tests/python/wheel.sh BUILD. Exit code 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=wheel node=$work/node log=$work/log node_variables="PATH=/site/bin:/bin PYTHONPATH=/site:/ PYTHONDONTWRITEBYTECODE=1"
. tests/bare_node.sh

require_a_node
"$python" -m venv "$work/venv" 2>"$work/log" || skip "python3 makes no virtual environments: $(tail -n 1 "$work/log")"
mkdir "$work/wheels"
"$work/venv/bin/pip" -q download --only-binary :all: -d "$work/wheels" numpy h5py >"$work/log" 2>&1 ||
  skip "numpy and h5py are not to be had from PyPI: $(tail -n 1 "$work/log")"

jobs/packaging/python/make_wheel.py "$build"
cp "$build"/mrmf-*.whl "$work/wheels/"

copy_with_libraries() {
  mkdir -p "$node/${1%/*}"
  cp -L "$1" "$node/$1"
  add_libraries "$1"
}

make_places
mkdir -p "$node/$python_home"
copy_with_libraries "$(command -v dash)"
cp "$node/$(command -v dash)" "$node/bin/sh"
copy_with_libraries "$python"
ln -s "$python" "$node/bin/python3"
for library in libstdc++.so.6 libgcc_s.so.1 libm.so.6 librt.so.1 libdl.so.2 libpthread.so.0 libutil.so.1 libresolv.so.2; do
  cp -L "/lib/x86_64-linux-gnu/$library" "$node/lib/x86_64-linux-gnu/" 2>/dev/null ||
    cp -L "/usr/lib/x86_64-linux-gnu/$library" "$node/lib/x86_64-linux-gnu/"
done
for module in "$python_home"/lib-dynload/*.so; do copy_with_libraries "$module"; done
cp -r "$work/wheels" "$node/wheels"
cp -r "$("$work/venv/bin/python" -c 'import os, pip; print(os.path.dirname(pip.__file__))')" "$node/pip"

cat >"$node/use.py" <<'PYTHON'
import sys
import numpy as np
import mrmf
assert not [name for name in ("pandas", "tqdm", "matplotlib", "sklearn", "xarray") if name in sys.modules]
x = np.random.default_rng(1).normal(size=(100, 16, 2)).astype("f4")
run = mrmf.train(x, x.mean(axis=1), epochs=2, folder="/tmp/run", ranks=2)
print(run.result["ranks"], "ranks,", run.predict(x).shape, run.export("/tmp/a.onnx"))
PYTHON
step "pip install" "python3 -m pip install -q --no-index --find-links /wheels --target /site mrmf && echo installed" "^installed"
step "the command" "cd /tmp && mrmf doctor" "backend .*oneDNN"
step "two ranks" "cd /tmp && mrmf-mpirun -n 2 mrmf doctor" "ranks  *2"
step "the package" "cd /tmp && python3 /use.py" "2 ranks, (100, 2) /tmp/a.onnx"
[ -z "$(find "$node/tmp" -name 'mrmf-*')" ] || fail "the package left $(ls "$node/tmp")"
echo "wheel test: all of it works without a compiler, MPI or HDF5"
