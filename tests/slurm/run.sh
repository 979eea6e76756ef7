#!/usr/bin/env bash
# jobs/submit.sh and its jobs, for real under a Slurm of one node that lives as long as the test.
# Usage: tests/slurm/run.sh BUILD. Exit code 77: skipped, with the reason.
set -eu
cd "$(dirname "$0")/../.."
MRMF=$(realpath "$1")/mrmf
export MRMF
jobs/setup.sh slurmctld slurmd slurm-client munge || { echo "slurm test: skipped: it needs the packages above"; exit 77; }
python=$(command -v /usr/bin/python3 python3 | head -n 1)
"$python" tests/slurm/test_submit.py
"$python" tests/slurm/test_jobs.py
