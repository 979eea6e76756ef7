#!/usr/bin/env bash
# Tests the tests: plants each bug of tests/mutants.txt in a copy of the sources and expects its test to fail.
# Usage: tests/mutants.sh [BUILD] [PATTERN]; PATTERN picks lines (grep). Exit code 1 when a bug is not caught.
# Environment: SHARD=1/2 plants the first of every two (so that two calls share the work); JOBS of a build (all cores).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
pattern=${2:-.} shard=${SHARD:-1/1} jobs=${JOBS:-$(nproc)}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PATH=/usr/bin:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/mrmf-mutants-XXXXXX")
trap 'rm -rf "$work"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$work"
build=$work/build
cmake -S "$work" -B "$build" -DCMAKE_BUILD_TYPE=Release -DMRMF_WERROR=OFF >"$work/log" 2>&1 &&
  cmake --build "$build" -j "$jobs" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
export MRMF=$build/mrmf

lines() {
  grep -v '^#' tests/mutants.txt | grep -v '^$' | grep -- "$pattern" |
    awk -v which="${shard%/*}" -v of="${shard#*/}" 'NR % of == which % of'
}
passes() { (cd "$build" && timeout 200 ${1//@SOURCE@/$work} >"$work/log" 2>&1 </dev/null); }

# A test that fails without a bug would "catch" every bug.
while read -r command; do
  passes "$command" || { echo "mutants: fails without a planted bug: $command"; tail -n 20 "$work/log"; exit 1; }
done < <(lines | sed 's/.*| *//' | sort -u)

caught=0 survived=0 broken=0
trim() { sed 's/^ *//; s/ *$//' <<<"$1"; }
while IFS='|' read -r file expression target command; do
  file=$(trim "$file") expression=$(trim "$expression") target=$(trim "$target") command=$(trim "$command")
  cp "$work/$file" "$work/original"
  sed -i "$expression" "$work/$file"
  if cmp -s "$work/$file" "$work/original"; then
    verdict="DOES NOT APPLY"; broken=$((broken + 1))
  elif ! cmake --build "$build" -j "$jobs" --target "$target" >"$work/log" 2>&1; then
    verdict="DOES NOT COMPILE"; broken=$((broken + 1))
  elif passes "$command"; then
    verdict="SURVIVED"; survived=$((survived + 1))
  else
    verdict="caught"; caught=$((caught + 1))
  fi
  printf '%-16s %s: %s\n' "$verdict" "$file" "$expression"
  cp "$work/original" "$work/$file"
done < <(lines)
echo "planted bugs: $caught caught, $survived survived, $broken could not be planted"
[ "$survived" -eq 0 ] && [ "$broken" -eq 0 ]
