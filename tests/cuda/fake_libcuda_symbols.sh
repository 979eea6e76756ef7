#!/usr/bin/env bash
# Writes C source that defines every function of the toolkit's stub of libcuda.so as one that fails. The definitions are
# weak, so those of fake_libcuda.c win. Usage: fake_libcuda_symbols.sh <stub of libcuda.so> <output.c>
set -eu
stub=$1 output=$2
symbols=$(nm -D --defined-only "$stub" | awk '$3 ~ /^cu[A-Z]/ { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ -n "$symbols" ] || { echo "$stub has no functions" >&2; exit 1; }
{
  echo "enum { stub_library = 34 };  // CUDA_ERROR_STUB_LIBRARY"
  for symbol in $symbols; do echo "__attribute__((weak)) int $symbol(void) { return stub_library; }"; done
} >"$output"
