#!/usr/bin/env bash
# Do the sums of the processor's kernels stay in registers? Where the compiler does not unroll a loop over them, it keeps them
# in memory and copies them there by "rep movs", which has cost a tenth of a training step. (Clearing them in memory, by
# "rep stos", costs nothing before a long loop.) Usage: tests/check_registers.sh PROGRAM. Exit code 77: skipped, with the reason.
set -euo pipefail
command -v objdump >/dev/null || { echo "registers: skipped: there is no objdump"; exit 77; }
objdump -d -C --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ </ {
    kernel = $0 ~ /mrmf::cpu::(fused|direct|local|sparse)::.*(_chunk|_tile|_strip|_patch|_part|_block|backward|forward)[<(]/
    name = substr($0, index($0, "<"), 140)
    kernels += kernel
  }
  kernel && /rep movs/ { if (!(name in found)) print "sums in memory: " name; found[name] = 1; ++wrong }
  END {
    if (kernels < 100) { print "registers: only " kernels + 0 " kernels were found; were they renamed?"; exit 1 }
    print "registers: " kernels " kernels, " wrong + 0 " copies of sums"
    exit wrong > 0
  }'
