#!/usr/bin/env bash
# Tests the Python package beside the packages that it serves where they are there (xarray, zarr, dask, pandas, tqdm,
# matplotlib, scikit-learn), from PyPI. Usage: tests/python/others.sh BUILD. Exit code 77: they are not to be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
venv=$build/venv-python
python=$(PATH=/usr/bin:$PATH command -v python3)
wanted="numpy h5py pandas tqdm matplotlib xarray scipy zarr dask[array] scikit-learn"
if ! [ -e "$venv/ready" ]; then
  rm -rf "$venv"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # shellcheck disable=SC2086
  if ! { "$python" -m venv "$venv" && "$venv/bin/pip" install -q $wanted; } >"$log" 2>&1; then
    echo "skipped: no $wanted from PyPI: $(tail -n 1 "$log")"
    exit 77
  fi
  touch "$venv/ready"
fi
MRMF=${MRMF:-$build/mrmf} exec "$venv/bin/python" -B "$here/others.py"
