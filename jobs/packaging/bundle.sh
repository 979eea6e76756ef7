#!/usr/bin/env bash
# Makes build/mrmf-bundle.tar.xz: mrmf with MPI and every library it needs but glibc, CUDA, cuDNN and NCCL, to be
# unpacked anywhere. Usage: jobs/packaging/bundle.sh [--without-tests] [--folder-only] [BUILD]. Needs Debian's Open MPI 4.1.
# --without-tests leaves out the GPU check; --folder-only makes build/bundle/mrmf and no archive.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests=1 archive=1 build=build
for word in "$@"; do
  case $word in
    --without-tests) tests=0 ;;
    --folder-only) archive=0 ;;
    -*) echo "bundle: unknown option $word; see jobs/packaging/bundle.sh" >&2; exit 2 ;;
    *) build=$word ;;
  esac
done
readonly limit_mb=40
plugin_folder=lib/$(uname -m)-linux-gnu/openmpi/lib/openmpi3  # Debian's, below the prefix /usr
readonly plugin_folder
out=$build/bundle/mrmf

fail() { echo "bundle: $*" >&2; exit 1; }

[ -x "$build/mrmf" ] || fail "$build/mrmf is missing; run make first"
[ -d "/usr/$plugin_folder" ] || fail "no Open MPI plug-ins in /usr/$plugin_folder; this needs Debian 12's openmpi-bin"

# What the driver, a toolkit or pip brings.
is_cuda() { [[ $1 =~ ^lib(cuda|cudart|cudnn[a-z_]*|cublas|cublasLt|nccl|nvrtc|nvJitLink|nvidia-[a-z-]*)\.so ]]; }
is_glibc() {
  [[ $1 =~ ^(ld-linux-[a-z0-9-]+|libc|libm|libdl|librt|libpthread|libresolv|libnss_[a-z]+|libanl|libutil|libmvec)\.so ]]
}

copy_programs() {
  local name
  mkdir -p "$out/bin" "$out/libexec" "$out/lib" "$out/$plugin_folder" "$out/share/openmpi" "$out/share/mrmf/plots"
  cp "$build/mrmf" "$out/libexec/mrmf"
  cp jobs/plots/*.py "$out/share/mrmf/plots/"  # which mrmf plot runs where there is a python3 with matplotlib
  cp jobs/load_safetensors.py "$out/share/mrmf/"
  cp -L /usr/bin/orterun "$out/libexec/mpirun"
  cp -L /usr/bin/orted "$out/libexec/orted"
  if [ $tests = 1 ]; then
    [ -x "$build/tests/unit_tests" ] || fail "$build/tests/unit_tests is missing; run make, or use --without-tests"
    cp "$build/tests/unit_tests" "$out/libexec/unit_tests"
    mkdir -p "$out/gpu"
    cp tests/gpu/*.py tests/gpu/*.toml tests/peers/torch/network.py "$out/gpu/"
    cp -r tests/gpu/peers "$out/gpu/"
    rm -f "$out"/gpu/test_*.py
    [ ! -e "$build/tests/gpu/libmrmf_kernel_trace.so" ] || cp "$build/tests/gpu/libmrmf_kernel_trace.so" "$out/gpu/"
    [ ! -e tests/peers/torch/cosmoflow.py ] || cp tests/peers/torch/cosmoflow.py "$out/gpu/"
  fi
  if [ -e "$build/libmrmf_cuda.so" ]; then
    cp "$build/libmrmf_cuda.so" "$out/libexec/"
  else
    echo "bundle: $build/libmrmf_cuda.so is not there, so the bundle has no CUDA module and runs on CPUs alone" >&2
  fi
  for name in "$out"/libexec/*; do
    case $name in *.so) ;; *) cp jobs/packaging/bundle/launcher.sh "$out/bin/${name##*/}" ;; esac
  done
  strip "$out"/libexec/*
}

copy_mpi() {
  local plugin
  cp /usr/share/openmpi/help-*.txt "$out/share/openmpi/"
  for plugin in $(grep -v '^#' jobs/packaging/bundle/plugins.txt); do
    cp "/usr/$plugin_folder/mca_$plugin.so" "$out/$plugin_folder/" ||
      fail "Open MPI's plug-in $plugin is not installed; jobs/packaging/bundle/plugins.txt is for version 4.1"
  done
}

# Copies what ldd finds; writes the libraries' origins, one a line, for the list of licences.
copy_libraries() {
  local name path
  {
    readlink -f /usr/bin/orterun /usr/bin/orted
    for path in "$out/$plugin_folder"/*; do echo "/usr/$plugin_folder/${path##*/}"; done
  } >"$work/origins"
  ldd "$out"/libexec/* "$out/$plugin_folder"/*.so | awk '$2 == "=>" { print $1, ($3 ~ /^\// ? $3 : "-") }' |
    sort -u >"$work/needed"
  while read -r name path; do
    if is_glibc "$name" || is_cuda "$name"; then continue; fi
    [ "$path" != - ] || fail "$name, which the programs need, is not on this machine"
    [ -e "$out/lib/$name" ] || cp -L "$path" "$out/lib/$name"
    readlink -f "$path" >>"$work/origins"
  done <"$work/needed"
}

# The module's own CUDA libraries, and NVRTC, which cuDNN opens by itself when it compiles a plan.
list_cuda() {
  local name list=""
  [ -e "$out/libexec/libmrmf_cuda.so" ] || return 0
  for name in $(readelf -d "$out/libexec/libmrmf_cuda.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p') libnvrtc.so.13; do
    if is_cuda "$name" && [ "$name" != libcuda.so.1 ]; then list="$list $name"; fi
  done
  echo "${list# }" >"$out/share/mrmf/cuda-libraries.txt"
}

write_readme() {
  local glibc check="" cuda="this bundle has no CUDA module."
  glibc=$(find "$out/lib" "$out/libexec" -type f -exec objdump -T {} + 2>/dev/null |
    grep -o 'GLIBC_2\.[0-9.]*' | sort -uV | tail -n 1)
  if [ $tests = 1 ]; then
    check=$(printf '  %-40s %s' gpu/check.py "the check on a GPU, in two calls; writes gpu.md")
  fi
  [ ! -e "$out/libexec/libmrmf_cuda.so" ] || cuda="$(cat "$out/share/mrmf/cuda-libraries.txt")."
  awk -v machine="$(uname -m)" -v glibc="${glibc#GLIBC_}" -v version="$("$build/mrmf" --version)" -v check="$check" -v cuda="$cuda" '
    { sub(/@MACHINE@/, machine); sub(/@GLIBC@/, glibc); sub(/@VERSION@/, version); sub(/@CHECK@/, check)
      sub(/@CUDA@/, cuda); print }' \
    jobs/packaging/bundle/README.txt >"$out/README.txt"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
copy_programs
copy_mpi
copy_libraries
list_cuda
jobs/packaging/bundle/licences.sh "$out" <"$work/origins"
write_readme
echo "bundle: $out, $(du -sm --apparent-size "$out" | cut -f 1) MB"
[ $archive = 1 ] || exit 0

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
  -C "$build/bundle" -cf "$work/bundle.tar" mrmf
xz -6 -T0 <"$work/bundle.tar" >"$work/bundle.tar.xz"
size=$(stat -c %s "$work/bundle.tar.xz")
[ "$size" -lt $((limit_mb * 1000000)) ] || fail "the archive has $((size / 1000000)) MB; the limit is $limit_mb MB"
cp "$work/bundle.tar.xz" "$build/mrmf-bundle.tar.xz"
echo "bundle: $build/mrmf-bundle.tar.xz, $((size / 1000000)) MB"
