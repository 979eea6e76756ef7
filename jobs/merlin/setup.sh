#!/usr/bin/env bash
# Makes a Python environment with Merlin, or leaves one that is there. Usage: setup.sh FOLDER
# Celery is named: with 5.7.0, Merlin 1.13.0 drops every step but the first of a chain, without an error.
set -eu
venv=$1
[ ! -x "$venv/bin/merlin" ] || exit 0
echo "merlin: installing Merlin 1.13.0 into $venv"
log=$(mktemp)
if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q "merlin==1.13.0" "celery[redis,sqlalchemy]==5.6.3"; } >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  rm -rf "$venv" "$log"
  echo "merlin: Merlin cannot be installed; the lines above say why (needed: python3-venv and PyPI)" >&2
  exit 1
fi
rm -f "$log"
