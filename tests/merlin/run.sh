#!/usr/bin/env bash
# The study of jobs/merlin under the real Merlin, small, with Redis and then all of it killed on the way.
# Usage: tests/merlin/run.sh BUILD. Exit code 77: skipped, with the reason.
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
jobs/setup.sh redis-server python3-venv procps || { echo "merlin test: skipped: it needs the packages above"; exit 77; }
jobs/merlin/setup.sh "$build/merlin" || { echo "merlin test: skipped: Merlin cannot be installed"; exit 77; }
python=$(command -v /usr/bin/python3 python3 | head -n 1)
MRMF=$build/mrmf MERLIN_VENV=$build/merlin exec "$python" tests/merlin/test_study.py
