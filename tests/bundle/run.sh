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
python=$(readlink -f "$(PATH=/usr/bin:$PATH command -v python3)")  # Debian's own, where there are several
python_home=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "bundle test: skipped: $*"; exit 77; }
fail() { echo "bundle test: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || skip "chroot needs root"
unshare --mount --net true 2>/dev/null || skip "this machine allows no mounts of one's own"
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

# Runs a command there, without a network but for the loopback that MPI's ranks meet on; the mounts vanish with their name
# space.
on_node() {
  timeout "${seconds:-200}" unshare --mount --net sh -c '
    node=$1 python=$2; shift 2
    "$python" -c "import fcntl, socket, struct  # SIOCSIFFLAGS: IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh22x\", b\"lo\", 1))"
    for device in null zero urandom; do mount --bind /dev/$device "$node/dev/$device"; done
    if [ -d "$node/$1" ]; then mount --bind "$1" "$node/$1"; fi
    shift
    mount -t tmpfs none "$node/dev/shm"; mount --bind /sys "$node/sys"; mount --bind /proc "$node/proc"
    exec env -i "$(command -v chroot)" "$node" /bin/sh -c "$@"' sh "$work/node" "$python" "$python_home" "$@"
}

add_libraries() {  # node, file
  local library
  ldd "$2" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$1/${library%/*}"
    cp -L "$library" "$1/$library"
  done
}

# What a GPU machine has beside that; python3's own modules are mounted.
add_tools() {
  local tool library
  mkdir -p "$1/usr/bin" "$1/$python_home" "$1/out" "$1/build"
  for tool in bash cat cp cut date dirname env grep gzip head id ls mkdir mktemp mv readlink rm sed sleep sort tail tar tee \
    timeout tr "$python"; do
    cp -L "$(command -v "$tool")" "$1/bin/"
    add_libraries "$1" "$(command -v "$tool")"
  done
  for library in "$python_home"/lib-dynload/{_lzma,_hashlib,_bz2}.*; do add_libraries "$1" "$library"; done
  ln -s "${python##*/}" "$1/bin/python3"
  cp "$1/bin/bash" "$1/bin/env" "$1/usr/bin/"
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

jobs/bundle.sh --folder-only "$build" 2>&1
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

# The scripts' own modules are there: PyTorch is not on this node, so nothing else would notice.
for module in torch_networks network cosmoflow; do
  [ -s "$build/bundle/mrmf/gpu/$module.py" ] || fail "gpu/$module.py, which the comparison with PyTorch imports, is not there"
done

[ -s "$build/bundle/mrmf/share/mrmf/jobs/plot.py" ] || fail "share/mrmf/jobs/plot.py, which mrmf plot runs, is not there"

# The two calls of docs/gpu.md, to the letter. What they find is the matter of tests/gpu/test_calls.py, so few cases do.
emulated=$build/tests/emulated/libmrmf_cuda_emulated.so
call() { sed -n "/^<!-- the $1 call -->/,/^\`\`\`\$/ { /^[^<\`]/p }" docs/gpu.md; }
if [ -e "$emulated" ]; then
  add_tools "$work/node"
  tar -C "$build/bundle" -cf "$work/node/build/mrmf-bundle.tar.xz" --use-compress-program="xz -0" mrmf
  cp "$emulated" "$work/node/emulated.so"
  strip --strip-debug "$work/node/emulated.so"
  rm -rf "$work/node/moved"
  seconds=1900
  for which in first second; do
    [ -n "$(call $which)" ] || fail "docs/gpu.md does not hold the $which call"
    echo "bundle test: the check's $which call"
    on_node "export TRIAL=1 CASES='layers: dense*,cuda: *gradients of fused*' OUT=/out MRMF_CUDA_MODULE=/emulated.so; cd /
      bash -c '$(call $which)'" >"$work/log" 2>&1 || { cat "$work/log"; fail "the check failed in its $which call"; }
    has " 0 FAILED" "$work/log"
    mkdir "$work/$which"
    tar -C "$work/$which" -xzf "$work/node/out/gpu-check-$which.tar.gz"
    cp "$work/node/out/gpu-check-$which.tar.gz" "$work/node/build/"
  done
  has "| first | kernels | ok |" "$work/node/out/gpu.md"
  has "| second | two ranks that share samples on one card | ok |" "$work/node/out/gpu.md"
  for file in "$work"/first/{device,first-cosmoflow-bf16,ours-neuron_inverter-bf16,gradients-neuron_inverter-bf16}.json "$work/second/steps.jsonl"; do
    [ -s "$file" ] || fail "the packed results lack ${file##*/}"
  done
  [ "$(ls "$work/node/out" | wc -l)" = 3 ] || { ls "$work/node/out"; fail "the calls left more than the page and two archives"; }
fi
echo "bundle test: all of it works on a bare node"
