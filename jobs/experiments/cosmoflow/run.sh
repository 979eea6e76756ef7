#!/usr/bin/env bash
# The CosmoFlow experiment on a workstation: simulates cubes, trains by every method with three seeds, prints the tables
# and draws the curves of docs/results/cosmoflow.md. Options as for jobs/reproduce.sh.
set -euo pipefail
exec "$(dirname "$0")/../../reproduce.sh" cosmoflow --size workstation "$@"
