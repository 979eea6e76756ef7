#!/usr/bin/env bash
# Builds with sanitizers, and without any optimisation, and runs tests with both. Usage: tests/sanitize/run.sh
# [plain|memory|threads|all].
#   plain    no inlining, and types of all files compared by the linker, in build-plain: two types of one name show there
#   memory   address + undefined behaviour, in build-asan: the unit tests, and command-line tests that take a minute or two
#   threads  data races, in build-tsan: reading ahead, the replica threads and shard replicas, sums over ranks part by part
# Files beside this one say which reports of libraries are left out, and why.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-all} jobs=${JOBS:-$(nproc)}
python=$(command -v /usr/bin/python3 python3 | head -n 1)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
suppressions=$PWD/tests/sanitize

build() {  # folder, flags, targets...
  local folder=$1 flags=$2
  shift 2
  mkdir -p "$folder"
  ${CC:-cc} -c tests/sanitize/keep_plugins.c -o "$folder/keep_plugins.o"
  # Each file by itself, so that one that leaves an include to another does not compile. -g1: lines for the reports. Warnings differ where the sanitizers' checks stand between.
  cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=None -DMRMF_WERROR=OFF -DMRMF_UNITY=OFF -DMRMF_CUDA=OFF \
    "-DCMAKE_CXX_FLAGS=-O1 -g1 -fno-omit-frame-pointer $flags" "-DCMAKE_EXE_LINKER_FLAGS=-rdynamic $PWD/$folder/keep_plugins.o" >"$folder.log" 2>&1 &&
    cmake --build "$folder" -j "$jobs" --target "$@" >"$folder.log" 2>&1 || { tail -n 40 "$folder.log"; exit 1; }
  rm -f "$folder.log"
}

# Where two types have one name, every call of one's functions may be a call of the other's. Inlining hides that. Types of a
# run's comparison, of fusions and of teams meet here; tests/check_types.py knows all.
plain() {
  build build-plain "-O0 -flto=auto -Wodr -Werror=odr" mrmf
  local script
  for script in report stem teams; do
    echo "== $script"
    MRMF=$PWD/build-plain/mrmf "$python" "tests/cli/test_$script.py" "${quick[@]}"
  done
}

memory() {
  build build-asan "-fsanitize=address,undefined -fno-sanitize-recover=undefined" mrmf unit_tests
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
  export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$suppressions/leaks.txt:print_suppressions=0
  # These measure speed, count allocations or limit memory, all of which the sanitizers change.
  build-asan/tests/unit_tests "--test-case-exclude=*allocat*,*by far*,*takes no memory*,*takes no longer*,*cannot be started*"
  local script
  for script in bad_input commands train checkpoint; do
    echo "== $script"
    MRMF=$PWD/build-asan/mrmf "$python" "tests/cli/test_$script.py" "${quick[@]}"
  done
}

threads() {
  build build-tsan "-fsanitize=thread" unit_tests mpi_tests
  export TSAN_OPTIONS=suppressions=$suppressions/threads.txt:halt_on_error=1:second_deadlock_stack=1
  # The sanitizer wants its shadow where the system may put libraries at random.
  setarch -R build-tsan/tests/unit_tests "--test-case=replica threads*,stream*,cache*,model: gradients*" "--test-case-exclude=*by far*"
  for ranks in 1 2; do
    mpirun --oversubscribe --bind-to none -n $ranks setarch -R build-tsan/tests/mpi_tests "--test-case=shard replicas*,streaming*,any order*"
  done
}

quick=(-v)
case $what in
  plain) plain ;;
  memory) memory ;;
  threads) threads ;;
  all) plain; memory; threads ;;
  *) echo "sanitize: '$what' is none of plain, memory, threads, all" >&2; exit 2 ;;
esac
echo "sanitize: $what: clean"
