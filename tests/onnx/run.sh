#!/usr/bin/env bash
# Compares exported ONNX files with `mrmf predict`, by ONNX Runtime. Usage: [TEST=test_tutorial.py] tests/onnx/run.sh [BUILD].
# Exit code 77: ONNX Runtime is not to be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
build=$(cd "${1:-$root/build}" && pwd)
"$here/venv.sh" || exit $?
MRMF=${MRMF:-$build/mrmf} EXPORT_MAPS=${EXPORT_MAPS:-$build/tests/export_maps} \
  exec "$root/.venv-onnx/bin/python" -B "$here/${TEST:-test_onnx.py}" "${@:2}"
