#!/usr/bin/env bash
# Does the bundle run where nothing but glibc and a shell is? Makes one, unpacked, and uses it in an empty chroot, in a
# folder with a space in its name, then in another. Usage: tests/bundle/run.sh BUILD.
# Exit code 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "bundle test: skipped: $*"; exit 77; }
fail() { echo "bundle test: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || skip "chroot needs root"
unshare --mount true 2>/dev/null || skip "this machine allows no mounts of one's own"
if ! [ -d /usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3 ]; then skip "no Open MPI in Debian's places"; fi

# The bare node: dash and glibc, nothing else.
make_node() {
  local library
  mkdir -p "$1"/{bin,dev/shm,etc,lib64,lib/x86_64-linux-gnu,proc,sys,tmp}
  cp "$(command -v dash)" "$1/bin/sh"
  for library in libc libm libdl librt libpthread libresolv libutil libmvec; do
    cp -L "/lib/x86_64-linux-gnu/$library.so".* "$1/lib/x86_64-linux-gnu/"
  done
  cp -L /lib64/ld-linux-x86-64.so.2 "$1/lib64/"
  echo "root:x:0:0::/tmp:/bin/sh" >"$1/etc/passwd"
  touch "$1"/dev/{null,zero,urandom}
}

# Runs a command there; the mounts vanish with their name space.
on_node() {
  timeout 50 unshare --mount sh -c '
    node=$1; shift
    for device in null zero urandom; do mount --bind /dev/$device "$node/dev/$device"; done
    mount -t tmpfs none "$node/dev/shm"; mount --bind /sys "$node/sys"; mount --bind /proc "$node/proc"
    exec env -i "$(command -v chroot)" "$node" /bin/sh -c "$@"' sh "$work/node" "$@"
}

write_config() {
  cat >"$work/node/tmp/tiny.toml" <<'TOML'
[data]
files      = ["/tmp/tiny.h5"]
train      = { samples = "train_frames", labels = "train_unitStar_par" }
validation = { samples = "val_frames",   labels = "val_unitStar_par" }
layout     = "transpose"
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

has() {  # text, log
  grep -q "$1" "$2" || { cat "$2"; fail "'$1' is not in the output above"; }
}

jobs/bundle.sh --folder-only --without-tests "$build" 2>&1
make_node "$work/node"
cp -r "$build/bundle/mrmf" "$work/node/a b"
write_config

step() {  # title, command, text that the output must hold
  echo "bundle test: $1"
  on_node "$2" >"$work/log" 2>&1 || { cat "$work/log"; fail "failed: $1"; }
  has "$3" "$work/log"
}
step "doctor" '"/a b/bin/mrmf" doctor' "backend .*oneDNN"
has "^mrmf: CUDA libraries: " "$work/log"
step "simulate" '"/a b/bin/mrmf" simulate neuron --samples 80 --cells 2 --output /tmp/tiny.h5' "80 samples of 2 cells"
step "train, one rank, by a relative path" 'cd "/a b/bin" && ./mrmf train /tmp/tiny.toml' "final validation loss"
mv "$work/node/a b" "$work/node/moved"
step "train, two ranks, after moving" '/moved/bin/mpirun -n 2 mrmf train /tmp/tiny.toml --overwrite' "final validation loss"
step "two ranks know of each other" 'cd /moved && bin/mpirun -n 2 bin/mrmf doctor' "ranks  *2"
[ -s "$work/node/tmp/run/result.json" ] || { ls "$work/node/tmp/run"; fail "the run left no result.json"; }
# Every library has its licence beside it.
licences=$build/bundle/mrmf/share/licences
for library in "$build"/bundle/mrmf/lib/*.so.*; do
  has "^${library##*/}" "$licences/LIST.txt"
done
while read -r _ _ _ licence; do
  [ -s "$licences/$licence" ] || fail "$licence, which the list of licences names, is not there"
done < <(sed '1,/^file /d; /^(compiled/d' "$licences/LIST.txt")
echo "bundle test: all of it works on a bare node"
