#!/usr/bin/env bash
# Installs the Debian packages that building and testing need. Where it may not install, it lists what is missing.
# Usage: jobs/setup.sh [PACKAGE...]. With names, it sees to those packages instead.
set -eu
packages="$*"
[ -n "$packages" ] || packages="g++ cmake make git ca-certificates ccache openmpi-bin libopenmpi-dev libhdf5-openmpi-dev libdnnl-dev libfftw3-dev libfftw3-mpi-dev
  libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev libeigen3-dev libonnx-dev libprotobuf-dev doctest-dev
  python3 python3-numpy python3-h5py python3-matplotlib"
if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian machine; needed are the equivalents of:" $packages
  exit 0
fi
missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
run=""
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then run="sudo"; else
    echo "setup: these Debian packages are missing and this user may not install them:" >&2
    echo "  $missing" | sed 's/  */ /g' >&2
    echo "setup: ask an administrator for: apt-get install$missing" >&2
    exit 1
  fi
fi
echo "setup: installing$missing"
log=$(mktemp)
if ! { $run apt-get update -qq && DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: installing failed; the missing packages are:$missing" >&2
  exit 1
fi
rm -f "$log"
