#!/usr/bin/env bash
# Runs a command as ranks on a slow network, on one machine: every rank in a network namespace of its own, as if on a
# node of its own; their lines meet in a bridge, and both ends of each let so many Gbit/s pass (tc tbf). Open MPI takes
# TCP between them, and no rank sees another's processes, whose memory it would read. Nothing is added to the latency:
# it is the kernel's own, which `mrmf bench network` shows in its shortest sums.
#
#   tests/network/run.sh RANKS GBIT COMMAND [WORDS...]      such as: run.sh 2 1 build/mrmf bench network --gbit 1
#
# Signals end it at once, in the middle of the command, too. Needs root, ip and tc; exits 77 where it cannot have them.
# Namespaces and files are removed however it ends; what a killed one has left, by the next.
set -eu
[ $# -ge 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }
ranks=$1 gbit=$2; shift 2
name=mn$$ created=() switch=mn$$s
skip() { echo "network: $1; skipped" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "namespaces need root"
for tool in ip tc mpirun unshare; do command -v $tool >/dev/null || skip "there is no $tool"; done
scratch=$(mktemp -d)
clean() {
  for one in "${created[@]}"; do
    for pid in $(ip netns pids "$one" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns del "$one" 2>/dev/null || true
    rm -rf "/etc/netns/$one"
  done
  rmdir /etc/netns 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP
# What runs that were killed have left.
for old in $(ip netns list | awk '{print $1}' | grep -E '^mn[0-9]+(s|-[0-9]+)$'); do
  pid=${old#mn}; pid=${pid%%[s-]*}
  [ -e "/proc/$pid" ] || created+=("$old")
done
add() { ip netns add "$1" 2>/dev/null || skip "a network namespace is not allowed here"; created+=("$1"); }

add $switch
ip -n $switch link add bridge type bridge
ip -n $switch link set bridge up
for ((i = 0; i < ranks; i++)); do echo "10.77.0.$((i + 1)) $name-$i"; done >"$scratch/hosts"
limit() { tc -n "$1" qdisc add dev "$2" root tbf rate "${gbit}gbit" burst 512kb latency 100ms 2>"$scratch/tc" || skip "tc tbf: $(<"$scratch/tc")"; }
for ((i = 0; i < ranks; i++)); do
  add $name-$i
  mkdir -p /etc/netns/$name-$i
  { echo "127.0.0.1 localhost"; cat "$scratch/hosts"; } >/etc/netns/$name-$i/hosts
  ip link add line netns $name-$i type veth peer name line$i netns $switch
  ip -n $switch link set line$i master bridge up
  ip -n $name-$i addr add 10.77.0.$((i + 1))/24 dev line
  ip -n $name-$i link set line up
  ip -n $name-$i link set lo up
  limit $name-$i line
  limit $switch line$i
done

# What Open MPI starts other nodes' processes by: HOST WORDS...
cat >"$scratch/agent" <<'AGENT'
#!/bin/sh
host=$1; shift
exec ip netns exec "$host" unshare --uts --pid --fork --mount-proc sh -c "hostname $host; $*"
AGENT
chmod +x "$scratch/agent"
nodes=$(for ((i = 0; i < ranks; i++)); do printf '%s%s-%d:1' "$([ $i = 0 ] || echo ,)" $name $i; done)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$scratch
forward=(-x PATH)
for variable in $(compgen -v MRMF_) $(compgen -e | grep -xE 'LD_LIBRARY_PATH|OMP_NUM_THREADS'); do forward+=(-x "$variable"); done
ip netns exec $name-0 unshare --uts --pid --fork --mount-proc sh -c "hostname $name-0; exec \"\$@\"" sh \
  mpirun --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.77.0.0/24 --mca btl tcp,self \
  --mca btl_tcp_if_include 10.77.0.0/24 --bind-to none -n "$ranks" -H "$nodes" "${forward[@]}" --wdir "$PWD" "$@" &
wait $!
