#!/usr/bin/env bash
# Does the bundle run where nothing but glibc and a shell is? Makes one, unpacked, and uses it in an empty chroot, in a
# folder with a space in its name, then in another. Then, on a node that also has what a GPU machine has (bash, small
# tools, python3; no network, no MPI, no HDF5, no xz), the two calls of docs/gpu.md, which unpack the archive there, run the
# check and leave its page and its results, each in one file: with the emulated device in a GPU's place and small networks.
# Usage: tests/bundle/run.sh BUILD.
# Exit code 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

name=bundle node=$work/node log=$work/log
. tests/bare_node.sh

require_a_node

# The bare node: dash and glibc, nothing else.
make_node() {
  local library
  make_places
  mkdir -p "$node"/{lib64,lib/x86_64-linux-gnu}
  cp "$(command -v dash)" "$node/bin/sh"
  for library in libc libm libdl librt libpthread libresolv libutil libmvec; do
    cp -L "/lib/x86_64-linux-gnu/$library.so".* "$node/lib/x86_64-linux-gnu/"
  done
  cp -L /lib64/ld-linux-x86-64.so.2 "$node/lib64/"
}

# What a GPU machine has beside that; python3's own modules are mounted.
add_tools() {
  local tool library
  mkdir -p "$node/usr/bin" "$node/$python_home" "$node/out" "$node/build"
  for tool in bash cat cp cut date dirname env grep gzip head id ls mkdir mktemp mv readlink rm sed sleep sort tail tar tee \
    timeout tr "$python"; do
    cp -L "$(command -v "$tool")" "$node/bin/"
    add_libraries "$(command -v "$tool")"
  done
  for library in "$python_home"/lib-dynload/{_lzma,_hashlib,_bz2}.*; do add_libraries "$library"; done
  ln -s "${python##*/}" "$node/bin/python3"
  cp "$node/bin/bash" "$node/bin/env" "$node/usr/bin/"
}

write_config() {
  cat >"$node/tmp/tiny.toml" <<'TOML'
[data]
files      = ["/tmp/tiny.h5"]
train      = { samples = "train_frames", labels = "train_unitStar_par" }
validation = { samples = "val_frames",   labels = "val_unitStar_par" }
layout     = "as_stored"
[model]
preset = "neuron_inverter"
[training]
batch  = 8
epochs = 1
[method]
name = "baseline"
[run]
folder  = "/tmp/run"
threads = 1
TOML
}

jobs/packaging/bundle.sh --folder-only "$build" 2>&1
make_node
cp -r "$build/bundle/mrmf" "$node/a b"
write_config

step "doctor" '"/a b/bin/mrmf" doctor' "backend .*oneDNN"
has "^mrmf: CUDA libraries: " "$log"
step "simulate" '"/a b/bin/mrmf" simulate neuron --samples 80 --cells 2 --output /tmp/tiny.h5' "80 samples of 2 cells"
step "train, one rank, by a relative path" 'cd "/a b/bin" && ./mrmf train /tmp/tiny.toml' "final validation loss"
mv "$node/a b" "$node/moved"
step "train, two ranks, after moving" '/moved/bin/mpirun -n 2 mrmf train /tmp/tiny.toml --overwrite' "final validation loss"
step "two ranks know of each other" 'cd /moved && bin/mpirun -n 2 bin/mrmf doctor' "ranks  *2"
[ -s "$node/tmp/run/result.json" ] || { ls "$node/tmp/run"; fail "the run left no result.json"; }
# Every library has its licence beside it.
licences=$build/bundle/mrmf/share/licences
for library in "$build"/bundle/mrmf/lib/*.so.*; do
  has "^${library##*/}" "$licences/LIST.txt"
done
while read -r _ _ _ licence; do
  [ -s "$licences/$licence" ] || fail "$licence, which the list of licences names, is not there"
done < <(sed '1,/^file /d; /^(compiled/d' "$licences/LIST.txt")

# The scripts' own modules are there: PyTorch is not on this node, so nothing else would notice.
for module in torch_networks network cosmoflow; do
  [ -s "$build/bundle/mrmf/gpu/$module.py" ] || fail "gpu/$module.py, which the comparison with PyTorch imports, is not there"
done

[ -s "$build/bundle/mrmf/share/mrmf/plots/plot.py" ] || fail "share/mrmf/plots/plot.py, which mrmf plot runs, is not there"

# The two calls of docs/gpu.md, to the letter. What they find is the matter of tests/gpu/test_calls.py, so few cases do.
emulated=$build/tests/emulated/libmrmf_cuda_emulated.so
call() { sed -n "/^<!-- the $1 call -->/,/^\`\`\`\$/ { /^[^<\`]/p }" docs/gpu.md; }
if [ -e "$emulated" ]; then
  add_tools
  tar -C "$build/bundle" -cf "$node/build/mrmf-bundle.tar.xz" --use-compress-program="xz -0" mrmf
  cp "$emulated" "$node/emulated.so"
  strip --strip-debug "$node/emulated.so"
  rm -rf "$node/moved"
  seconds=1900
  for which in first second; do
    [ -n "$(call $which)" ] || fail "docs/gpu.md does not hold the $which call"
    echo "bundle test: the check's $which call"
    on_node "export TRIAL=1 CASES='layers: dense*,cuda: *gradients of fused*' OUT=/out MRMF_CUDA_MODULE=/emulated.so; cd /
      bash -c '$(call $which)'" >"$log" 2>&1 || { cat "$log"; fail "the check failed in its $which call"; }
    has " 0 FAILED" "$log"
    mkdir "$work/$which"
    tar -C "$work/$which" -xzf "$node/out/gpu-check-$which.tar.gz"
    cp "$node/out/gpu-check-$which.tar.gz" "$node/build/"
  done
  has "| first | kernels | ok |" "$node/out/gpu.md"
  has "| second | two ranks that share samples on one card | ok |" "$node/out/gpu.md"
  for file in "$work"/first/{device,first-cosmoflow-bf16,ours-neuron_inverter-bf16,gradients-neuron_inverter-bf16}.json "$work/second/steps.jsonl"; do
    [ -s "$file" ] || fail "the packed results lack ${file##*/}"
  done
  [ "$(ls "$node/out" | wc -l)" = 3 ] || { ls "$node/out"; fail "the calls left more than the page and two archives"; }
fi
echo "bundle test: all of it works on a bare node"
