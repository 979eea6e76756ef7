# shellcheck shell=bash disable=SC2154
# Shared by the tests that run a program in an empty chroot of the machine: set `name` (of the test, for its messages) and
# `node` (the folder that is the chroot) and source this. Finds Debian's own python3: $python, $python_home.
python=$(readlink -f "$(PATH=/usr/bin:$PATH command -v python3)")  # where there are several
python_home=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')

skip() { echo "$name test: skipped: $*"; exit 77; }
fail() { echo "$name test: $*" >&2; exit 1; }

require_a_node() {
  [ "$(id -u)" = 0 ] || skip "chroot needs root"
  unshare --mount --net true 2>/dev/null || skip "this machine allows no mounts of one's own"
  [ -d /usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3 ] || skip "no Open MPI in Debian's places"
}

# The folders that on_node mounts on, and who root is.
make_places() {
  mkdir -p "$node"/{bin,dev/shm,etc,proc,sys,tmp}
  echo "root:x:0:0::/tmp:/bin/sh" >"$node/etc/passwd"
  touch "$node"/dev/{null,zero,urandom}
}

# The libraries of a program, where it has them here.
add_libraries() {  # file
  local library
  { ldd "$1" || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$node/${library%/*}"
    cp -L "$library" "$node/$library"
  done
}

# Runs a shell's command there, without a network but for the loopback that MPI's ranks meet on; the mounts vanish with
# their name space. Python's own modules are there if the node has a place for them. $node_variables: its environment.
on_node() {
  # shellcheck disable=SC2086  # several variables
  timeout "${seconds:-200}" unshare --mount --net sh -c '
    node=$1 python=$2 home=$3; shift 3
    "$python" -c "import fcntl, socket, struct  # SIOCSIFFLAGS: IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh22x\", b\"lo\", 1))"
    for device in null zero urandom; do mount --bind /dev/$device "$node/dev/$device"; done
    if [ -d "$node/$home" ]; then mount --bind "$home" "$node/$home"; fi
    mount -t tmpfs none "$node/dev/shm"; mount --bind /sys "$node/sys"; mount --bind /proc "$node/proc"
    command=$1; shift
    exec env -i "$@" "$(command -v chroot)" "$node" /bin/sh -c "$command"' \
    sh "$node" "$python" "$python_home" "$1" ${node_variables:-}
}

has() {  # text, log
  grep -q "$1" "$2" || { cat "$2"; fail "'$1' is not in the output above"; }
}

step() {  # title, command, text that the output must hold; the log stays in $log
  echo "$name test: $1"
  on_node "$2" >"$log" 2>&1 || { cat "$log"; fail "failed: $1"; }
  has "$3" "$log"
}
