#!/usr/bin/env bash
# clang-tidy 14, the pinned version, over our sources; the checks and the reasons are in .clang-tidy.
set -eu
build=${1:-build}
tool=$(command -v clang-tidy-14 || true)
[ -n "$tool" ] || { echo "tidy: clang-tidy-14 is missing (Debian package clang-tidy-14)" >&2; exit 1; }
# Each file by itself: a build's own commands have several at once (MRMF_UNITY).
commands=$build/tidy
mkdir -p "$commands"
sed "/^CMAKE_CACHEFILE_DIR\|^CMAKE_HOME_DIRECTORY/d" "$build/CMakeCache.txt" >"$commands/CMakeCache.txt"
cmake -S . -B "$commands" -DMRMF_UNITY=OFF >/dev/null
cp -r "$build/generated" "$commands" 2>/dev/null || true
git ls-files 'src/*.cpp' 'layers/*.cpp' 'kernels/*.cpp' 'io/*.cpp' 'mpi/*.cpp' |
  xargs -P "$(nproc)" -n 1 "$tool" -p "$commands" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas --quiet --warnings-as-errors='*' 2> >(grep -v 'warnings generated' >&2)
echo "tidy: no findings"
