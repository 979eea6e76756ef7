#!/usr/bin/env bash
# Writes BUNDLE/share/licences: LIST.txt, a line for every third-party file carried in a bundle with its Debian package,
# and the packages' copyright files. Standard input: the files' places on this machine, one a line.
set -euo pipefail
out=$1/share/licences
mkdir -p "$out"
# Compiled in from headers, so no file of theirs is carried.
readonly header_only="libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libxxhash-dev libeigen3-dev doctest-dev"
mapfile -t files < <(sort -u)

# The packages of all files in one question. The merged /usr has two names for a file, and dpkg knows one of them.
declare -A owner
while IFS=' ' read -r packages path; do
  owner[${path#/usr}]=${packages%%:*}
done < <(dpkg -S "${files[@]}" "${files[@]#/usr}" 2>/dev/null || true)

line() {  # what, package
  local version
  version=$(dpkg-query -W -f='${Version}\n' "$2" | head -n 1)
  [ -e "$out/$2.txt" ] || cp -L "/usr/share/doc/$2/copyright" "$out/$2.txt"
  printf '%-34s %-26s %-28s %s\n' "$1" "$2" "$version" "$2.txt"
}

{
  echo "Third-party software in this bundle. The licence files are Debian's copyright files of the packages,"
  echo "beside this list. CUDA, cuDNN, NCCL and glibc are not carried."
  echo
  printf '%-34s %-26s %-28s %s\n' file package version licence
  for path in "${files[@]}"; do
    package=${owner[${path#/usr}]:-}
    [ -n "$package" ] || { echo "bundle: no Debian package owns $path, so its licence is not known" >&2; exit 1; }
    line "${path##*/}" "$package"
  done
  for package in $header_only; do
    if dpkg-query -W "$package" >/dev/null 2>&1; then line "(compiled in)" "$package"; fi
  done
} >"$out/LIST.txt"
