#!/usr/bin/env bash
# Makes .venv-onnx with ONNX Runtime and what reads its inputs, from PyPI (about 150 MB), unless it is there.
# Exit code 77, with the reason, where that cannot be done.
set -u
cd "$(dirname "$0")/../.." || exit 1
venv=.venv-onnx
modules="onnxruntime, onnx, safetensors.numpy, numpy, h5py"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

works() { [ -x $venv/bin/python ] && $venv/bin/python -c "import $modules" >"$log" 2>&1; }

works && exit 0
echo "onnx: installing ONNX Runtime in $venv"
for python in python3 /usr/bin/python3; do  # Debian's own lacks venv unless python3-venv is installed
  [ -x $venv/bin/pip ] || { rm -rf $venv; "$python" -m venv $venv >"$log" 2>&1; }
done
[ -x $venv/bin/pip ] &&
  timeout 400 $venv/bin/pip install --quiet --retries 1 --timeout 20 onnxruntime onnx safetensors numpy h5py >"$log" 2>&1 &&
  works && exit 0
tail -n 5 "$log"
echo "####################################################################################################"
echo "onnx: SKIPPED: ONNX Runtime is not to be had (see above), so exported ONNX files were NOT compared."
echo "onnx: it comes from PyPI; where that can be reached, tests/onnx/venv.sh installs it into $venv."
echo "####################################################################################################"
exit 77
