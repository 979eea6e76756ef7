#!/usr/bin/env bash
# The paper's tables and figures: jobs/reproduce.sh table1 ... table9, figure3 ... figure5, cosmoflow, neuron or all,
# [--size smoke|workstation|paper]. --help has the rest. Paths are relative to the program's source folder.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-/usr/bin/python3}" -B jobs/reproduce "$@"
