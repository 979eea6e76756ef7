#!/usr/bin/env bash
# Tests the tests: plants each bug of tests/mutants.txt in a copy of the sources and expects its test to fail.
# Usage: tests/mutants.sh [BUILD] [PATTERN]; PATTERN picks lines (grep). Exit code 1 when a bug is not caught.
# Environment: SHARD=1/2 plants the first of every two (so that two calls share the work); JOBS of a build (all cores);
# PLANT=only builds and tests nothing, and names the bugs that can no longer be planted.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
pattern=${2:-.} shard=${SHARD:-1/1} jobs=${JOBS:-$(nproc)}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PATH=/usr/bin:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/mrmf-mutants-XXXXXX")
trap 'rm -rf "$work"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$work"
build=$work/build
export MRMF=$build/mrmf

lines() {
  grep -v '^#' tests/mutants.txt | grep -v '^$' | grep -- "$pattern" |
    awk -v which="${shard%/*}" -v of="${shard#*/}" 'NR % of == which % of'
}
plant() {  # Every part of an expression must change the file: one that no longer does would leave half a bug.
  local part
  while read -r part; do
    cp "$work/$file" "$work/before"
    sed -i "$part" "$work/$file" 2>/dev/null && ! cmp -s "$work/$file" "$work/before" || return 1
  done < <(sed 's/;s\//\ns\//g' <<<"$expression")
}
make_copy() {
  cmake -S "$work" -B "$build" -DCMAKE_BUILD_TYPE=Release -DMRMF_WERROR=OFF >"$work/log" 2>&1 &&
    cmake --build "$build" -j "$jobs" >"$work/log" 2>&1
}
passes() { (cd "$build" && timeout 200 ${1//@SOURCE@/$work} >"$work/log" 2>&1 </dev/null); }

if [ "${PLANT:-}" != only ]; then
  make_copy || { tail -n 20 "$work/log"; exit 1; }
  # A test that fails without a bug would "catch" every bug.
  while read -r command; do
    passes "$command" || { echo "mutants: fails without a planted bug: $command"; tail -n 20 "$work/log"; exit 1; }
  done < <(lines | sed 's/.* | *//' | sort -u)
fi

caught=0 survived=0 broken=0
while read -r line; do  # FILE | EXPRESSION, which may hold ||, | TARGET | COMMAND
  command=${line##*' | '} line=${line%' | '*}
  target=${line##*' | '} line=${line%' | '*}
  file=${line%%' | '*} expression=${line#*' | '}
  cp "$work/$file" "$work/original"
  if ! plant; then
    verdict="DOES NOT APPLY"; broken=$((broken + 1))
  elif [ "${PLANT:-}" = only ]; then
    verdict=""
  elif ! cmake --build "$build" -j "$jobs" --target $target >"$work/log" 2>&1; then
    verdict="DOES NOT COMPILE"; broken=$((broken + 1))
  elif passes "$command"; then
    verdict="SURVIVED"; survived=$((survived + 1))
  else
    verdict="caught"; caught=$((caught + 1))
  fi
  [ -z "$verdict" ] || printf '%-16s %s: %s\n' "$verdict" "$file" "$expression"
  cp "$work/original" "$work/$file"
done < <(lines)
[ "${PLANT:-}" = only ] || echo "planted bugs: $caught caught, $survived survived, $broken could not be planted"
[ "$survived" -eq 0 ] && [ "$broken" -eq 0 ]
