#!/usr/bin/env bash
# Builds for 64-bit ARM with Debian's cross compiler, and runs the unit tests of what layers and kernels compute, emulated
# by QEMU. For machines that are no ARM; a build on one needs nothing of this. Usage: tests/arm/run.sh [FOLDER]. Debian's
# ARM packages and the build stay in FOLDER (build-arm): 1.5 GB. Needs root, to unpack the packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-build-arm}") jobs=${JOBS:-$(nproc)}
jobs/setup.sh g++-aarch64-linux-gnu qemu-user-static debootstrap
export MRMF_ARM_ROOT=$folder/root
libraries=libopenmpi-dev,libhdf5-openmpi-dev,libdnnl-dev,libfftw3-dev,libfftw3-mpi-dev,libfmt-dev,libcli11-dev,nlohmann-json3-dev
libraries+=,libtomlplusplus-dev,libxxhash-dev,libeigen3-dev,libonnx-dev,libprotobuf-dev,doctest-dev,g++

if [ ! -e "$folder/unpacked" ]; then
  rm -rf "$MRMF_ARM_ROOT"
  mkdir -p "$folder"
  echo "arm: fetching Debian's packages into $MRMF_ARM_ROOT"
  debootstrap --foreign --arch=arm64 --variant=minbase --include="$libraries" \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$MRMF_ARM_ROOT" >"$folder/debootstrap.log" 2>&1 || { tail -n 20 "$folder/debootstrap.log"; exit 1; }
  for package in "$MRMF_ARM_ROOT"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$MRMF_ARM_ROOT"; done
  find "$MRMF_ARM_ROOT/usr/lib" -type l -lname '/*' | while read -r link; do  # absolute links would leave the root
    ln -sfn "$MRMF_ARM_ROOT$(readlink "$link")" "$link"
  done
  touch "$folder/unpacked"
fi

cmake -S . -B "$folder/build" -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/arm/toolchain.cmake" -DMRMF_CUDA=OFF >"$folder/cmake.log" 2>&1 ||
  { tail -n 20 "$folder/cmake.log"; exit 1; }
cmake --build "$folder/build" -j "$jobs" --target mrmf unit_tests
# Where the packages that are not configured have their libraries.
shared=$(printf "$MRMF_ARM_ROOT/%s:" lib/aarch64-linux-gnu usr/lib/aarch64-linux-gnu{,/hdf5/openmpi,/openmpi/lib,/blas,/lapack})
emulated() {
  OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    qemu-aarch64-static -L "$MRMF_ARM_ROOT" -E LD_LIBRARY_PATH="${shared%:}" "$@"
}
emulated "$folder/build/mrmf" doctor
emulated "$folder/build/tests/unit_tests" \
  "--test-case=${CASES:-operations:*,layers:*,values:*,batch norm:*,input batch norm*,dropout:*,NaN:*,threads:*,CPU in bf16:*,*oneDNN backend agrees*}"
