#!/usr/bin/env bash
# The long run of tests/faults/run.py: a JSON line per fault in BUILD/faults.jsonl, the table in BUILD/faults.md.
# Then every error of all ranks beside spinning processes, each of which must be one line.
# Usage: tests/faults/run.sh [BUILD]. Environment: COUNT (1000), SEED (taken from the clock), JOBS (2).
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build}")
python=$(command -v /usr/bin/python3 python3 | head -n 1)
export MRMF=$build/mrmf MRMF_FAULT_SHIM=$build/tests/libfault_shim.so
rm -f "$build/faults.jsonl"
"$python" tests/faults/run.py --count "${COUNT:-1000}" ${SEED:+--seed "$SEED"} --jobs "${JOBS:-2}" \
  --records "$build/faults.jsonl" --table "$build/faults.md" || failed=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
MRMF_ONE_LINE=all "$python" tests/cli/test_one_line.py || failed=1
echo "faults: the table is in $build/faults.md"
exit "${failed:-0}"
