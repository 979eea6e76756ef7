#!/usr/bin/env bash
# Makes the wheel and installs it with pip where nothing is but Python, glibc and what every manylinux wheel may ask for:
# no MPI, no HDF5, no compiler, no network. There the command runs, alone and under the wheel's own mpirun, and the package
# trains and predicts. Usage: tests/python/wheel.sh BUILD. Exit code 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
node=$work/node

skip() { echo "wheel test: skipped: $*"; exit 77; }
fail() { echo "wheel test: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || skip "chroot needs root"
unshare --mount --net true 2>/dev/null || skip "this machine allows no mounts of one's own"
[ -d /usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3 ] || skip "no Open MPI in Debian's places"
python=$(readlink -f "$(PATH=/usr/bin:$PATH command -v python3)")
python_home=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
"$python" -m venv "$work/venv" 2>"$work/log" || skip "python3 makes no virtual environments: $(tail -n 1 "$work/log")"
mkdir "$work/wheels"
"$work/venv/bin/pip" -q download --only-binary :all: -d "$work/wheels" numpy h5py >"$work/log" 2>&1 ||
  skip "numpy and h5py are not to be had from PyPI: $(tail -n 1 "$work/log")"

jobs/python/make_wheel.py "$build"
cp "$build"/mrmf-*.whl "$work/wheels/"

copy_with_libraries() {
  local library
  mkdir -p "$node/${1%/*}"
  cp -L "$1" "$node/$1"
  { ldd "$1" || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$node/${library%/*}"
    cp -L "$library" "$node/$library"
  done
}

mkdir -p "$node"/{bin,dev/shm,etc,proc,sys,tmp} "$node/$python_home"
copy_with_libraries "$(command -v dash)"
cp "$node/$(command -v dash)" "$node/bin/sh"
copy_with_libraries "$python"
ln -s "$python" "$node/bin/python3"
for library in libstdc++.so.6 libgcc_s.so.1 libm.so.6 librt.so.1 libdl.so.2 libpthread.so.0 libutil.so.1 libresolv.so.2; do
  cp -L "/lib/x86_64-linux-gnu/$library" "$node/lib/x86_64-linux-gnu/" 2>/dev/null ||
    cp -L "/usr/lib/x86_64-linux-gnu/$library" "$node/lib/x86_64-linux-gnu/"
done
for module in "$python_home"/lib-dynload/*.so; do copy_with_libraries "$module"; done
echo "root:x:0:0::/tmp:/bin/sh" >"$node/etc/passwd"
touch "$node"/dev/{null,zero,urandom}
cp -r "$work/wheels" "$node/wheels"
cp -r "$("$work/venv/bin/python" -c 'import os, pip; print(os.path.dirname(pip.__file__))')" "$node/pip"

# Runs a command there, without a network but for the loopback that MPI's ranks meet on.
on_node() {
  timeout 200 unshare --mount --net sh -c '
    node=$1 python=$2 home=$3; shift 3
    "$python" -c "import fcntl, socket, struct  # SIOCSIFFLAGS: IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh22x\", b\"lo\", 1))"
    for device in null zero urandom; do mount --bind /dev/$device "$node/dev/$device"; done
    mount --bind "$home" "$node/$home"
    mount -t tmpfs none "$node/dev/shm"; mount --bind /sys "$node/sys"; mount --bind /proc "$node/proc"
    exec env -i PATH=/site/bin:/bin PYTHONPATH=/site:/ PYTHONDONTWRITEBYTECODE=1 \
      "$(command -v chroot)" "$node" /bin/sh -c "$1"' sh "$node" "$python" "$python_home" "$1"
}

step() {  # title, command, text that the output must hold
  echo "wheel test: $1"
  on_node "$2" >"$work/log" 2>&1 || { cat "$work/log"; fail "failed: $1"; }
  grep -q "$3" "$work/log" || { cat "$work/log"; fail "'$3' is not in the output above"; }
}

cat >"$node/use.py" <<'PYTHON'
import sys
import numpy as np
import mrmf
assert not [name for name in ("pandas", "tqdm", "matplotlib", "sklearn", "xarray") if name in sys.modules]
x = np.random.default_rng(1).normal(size=(100, 16, 2)).astype("f4")
run = mrmf.train(x, x.mean(axis=1), epochs=2, folder="/tmp/run", ranks=2)
print(run.result["ranks"], "ranks,", run.predict(x).shape, run.export("/tmp/a.onnx"))
PYTHON
step "pip install" "python3 -m pip install -q --no-index --find-links /wheels --target /site mrmf && echo installed" "^installed"
step "the command" "cd /tmp && mrmf doctor" "backend .*oneDNN"
step "two ranks" "cd /tmp && mrmf-mpirun -n 2 mrmf doctor" "ranks  *2"
step "the package" "cd /tmp && python3 /use.py" "2 ranks, (100, 2) /tmp/a.onnx"
[ -z "$(find "$node/tmp" -name 'mrmf-*')" ] || fail "the package left $(ls "$node/tmp")"
echo "wheel test: all of it works without a compiler, MPI or HDF5"
