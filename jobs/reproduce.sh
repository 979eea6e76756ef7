#!/usr/bin/env bash
# The paper's tables and figures: jobs/reproduce.sh table1 ... table9, figure3 ... figure5, cosmoflow, neuron or all,
# [--size smoke|workstation|paper]. --help has the rest. Paths are relative to where it is called.
set -euo pipefail
exec "${PYTHON:-/usr/bin/python3}" -B "$(dirname "$0")/experiments/reproduce" "$@"
