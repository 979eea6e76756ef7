#!/usr/bin/env bash
# Formats (fix) or checks (check) our sources with clang-format 14, the pinned version; checks scripts with shellcheck.
set -eu
tool=$(command -v clang-format-14 || true)
[ -n "$tool" ] || { echo "style: clang-format-14 is missing (Debian package clang-format-14)" >&2; exit 1; }
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.inl' '*.cu' '*.cuh')
case ${1:-check} in
  fix) "$tool" -i "${files[@]}" ;;
  check)  # one command a line: 'set -e' does not see one before '&&'
    "$tool" --dry-run --Werror "${files[@]}"
    echo "style: ${#files[@]} files are formatted"
    mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' '*.job')
    shellcheck --severity=warning "${scripts[@]}"
    echo "style: ${#scripts[@]} scripts are sound" ;;
esac
