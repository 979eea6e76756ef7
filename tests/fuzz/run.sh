#!/usr/bin/env bash
# Fuzzes what reads other people's bytes: configurations, records, HDF5 files, safetensors. Usage: tests/fuzz/run.sh [BUILD] [SECONDS]:
# seconds over all fuzzers (300). An input that breaks something is kept in BUILD/fuzz/broken and fails; it is tried again by
# BUILD/fuzz/fuzz_NAME FILE. What was found interesting stays in BUILD/fuzz/corpus, where the next call continues.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build}") seconds=${2:-300}
jobs/setup.sh clang-14 libclang-rt-14-dev
cmake -S tests/fuzz -B "$build/fuzz" -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 >"$build/fuzz.log" 2>&1 &&
  cmake --build "$build/fuzz" -j "${JOBS:-$(nproc)}" >"$build/fuzz.log" 2>&1 || { tail -n 40 "$build/fuzz.log"; exit 1; }

# To begin with: our own configurations, and records of a run.
mkdir -p "$build"/fuzz/{seeds,corpus}/{config,records,hdf5,safetensors} "$build/fuzz/broken"
find jobs tests -name '*.toml' -size -20k -exec cp {} "$build/fuzz/seeds/config" \;
"$(command -v /usr/bin/python3 python3 | head -n 1)" tests/fuzz/seeds.py "$build"

export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$PWD/tests/sanitize/leaks.txt:print_suppressions=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0
for name in config records hdf5 safetensors; do
  options=(-max_total_time=$((seconds / 4)) -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1
    "-artifact_prefix=$build/fuzz/broken/$name-")
  leaks=1
  if [ $name = hdf5 ]; then  # HDF5 keeps what it failed to open, MPI's plug-ins are gone by name at the end
    leaks=0
    options+=(-max_len=400)
  else
    options+=(-max_len=20000)
  fi
  ASAN_OPTIONS=detect_leaks=$leaks "$build/fuzz/fuzz_$name" "-detect_leaks=$leaks" "${options[@]}" \
    "$build/fuzz/corpus/$name" "$build/fuzz/seeds/$name" >"$build/fuzz/$name.log" 2>&1 ||
    { failed=1; grep -vE '^#' "$build/fuzz/$name.log" | tail -n 60; }
  echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz/$name.log") inputs" \
    "$([ -z "$(find "$build/fuzz/broken" -name "$name-*")" ] && echo "and none broke it" || echo "and some in $build/fuzz/broken break it")"
done
exit $failed
