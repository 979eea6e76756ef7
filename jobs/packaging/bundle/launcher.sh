#!/bin/sh
# Starts the bundle's program that has this file's name (mrmf, mpirun, orted, unit_tests), wherever the bundle lies:
# sets what MPI must know of its place, and finds the CUDA libraries, which the bundle does not carry.
# `mrmf doctor` says what was found; otherwise it is said only where a GPU is and a library is not.
# POSIX sh without other tools: a bare node has few.
set -u

self=$0
while [ -h "$self" ]; do
  link=$(readlink "$self")
  case $link in /*) self=$link ;; *) self=${self%/*}/$link ;; esac
done
program=${self##*/}
case $self in */*) folder=${self%/*} ;; *) folder=. ;; esac
root=$(cd "$folder/.." && pwd -P) || exit 4
libraries=${LD_LIBRARY_PATH:-}
found=""
missing=""

say() { # only rank 0 speaks
  [ "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}" != 0 ] || echo "mrmf: $*" >&2
}

add_folder() {
  case ":$libraries:" in *":$1:"*) ;; *) libraries=${libraries:+$libraries:}$1 ;; esac
}

find_in() { # source, folders (one a line): takes what is still missing from there
  source=$1 still=""
  for library in $missing; do
    place=$(printf '%s\n' "$2" | while IFS= read -r folder; do
      if [ -n "$folder" ] && [ -e "$folder/$library" ]; then printf '%s' "$folder"; break; fi
    done)
    if [ -n "$place" ]; then
      add_folder "$place"
      found="${found:+$found, }$library ($source)"
    else
      still="${still:+$still }$library"
    fi
  done
  missing=$still
}

lines() { printf '%s\n' "$1" | { IFS=:; read -r all; for folder in $all; do printf '%s\n' "$folder"; done; }; }

pip_folders() {
  command -v "${MRMF_PYTHON:-python3}" >/dev/null 2>&1 || return 0
  "${MRMF_PYTHON:-python3}" -c '
import glob, nvidia
for root in nvidia.__path__:
    print("\n".join(sorted(glob.glob(glob.escape(root) + "/*/lib"))))' 2>/dev/null || true
}

find_cuda() {
  read -r missing <"$root/share/mrmf/cuda-libraries.txt"
  home=${CUDA_HOME:-${CUDA_PATH:-}}
  find_in "LD_LIBRARY_PATH" "$(lines "$libraries")"
  # Pip's before the toolkit's: they are those that PyTorch of the same machine runs with.
  [ -z "$missing" ] || find_in "python3's nvidia packages" "$(pip_folders)"
  [ -z "$missing" ] || [ -z "$home" ] || find_in "$home" "$(printf '%s\n' "$home/lib64" "$home/lib")"
  [ -z "$missing" ] || find_in "/usr/local/cuda" "$(printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/lib)"
  [ -z "$missing" ] || find_in "system" "$(printf '%s\n' "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64 /lib64)"
}

report_cuda() {
  if [ ! -e "$root/libexec/libmrmf_cuda.so" ]; then
    say "CUDA libraries: not looked for, this bundle was made without the CUDA module; it runs on CPUs"
  elif [ -n "$missing" ]; then
    say "CUDA libraries: missing: $missing${found:+; found: $found}. Looked in LD_LIBRARY_PATH," \
      "python3's nvidia packages, CUDA_HOME, /usr/local/cuda and the system's folders; set CUDA_HOME or LD_LIBRARY_PATH"
  else
    say "CUDA libraries: $found"
  fi
}

# The bundle's own folder comes first; the CUDA libraries' folders stay behind it.
case "$libraries:" in "$root/lib:"*) ;; *) libraries=$root/lib${libraries:+:$libraries} ;; esac
if [ -e "$root/libexec/libmrmf_cuda.so" ]; then find_cuda; fi
if [ "$program ${1:-}" = "mrmf doctor" ]; then
  report_cuda
elif [ -n "$missing" ] && [ -e /dev/nvidiactl ]; then
  report_cuda
fi

if [ "$program" = mpirun ] && command -v id >/dev/null 2>&1 && ! id -un >/dev/null 2>&1; then
  say "user id $(id -u) has no name here, and mpirun cannot do without one; add it to /etc/passwd"
  exit 4
fi

export LD_LIBRARY_PATH="$libraries"
export PATH="$root/bin:${PATH:-/usr/bin:/bin}"
export HOME="${HOME:-/tmp}"
export OPAL_PREFIX="$root"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PMIX_MCA_pcompress_base_silence_warning=1 # PMIx looks for its plug-ins where Debian has them
# Without ssh and srun MPI finds no way to other nodes, and ends even where none is asked for.
if ! command -v ssh >/dev/null 2>&1 && ! command -v srun >/dev/null 2>&1; then
  export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
fi
exec "$root/libexec/$program" "$@"
