#!/usr/bin/env bash
# Builds the documents as a site with search into BUILD/site: this repository's pages as they are, and references of the
# Python package and of the C++ library made from their sources. MkDocs comes from PyPI into BUILD/venv-site.
# A broken link or anchor is an error. Usage: jobs/packaging/site/build.sh [BUILD]. Exit code 77: MkDocs is not to be had.
set -euo pipefail
cd "$(dirname "$0")/../../.."
build=${1:-build}
mkdir -p "$build"
build=$(cd "$build" && pwd)
venv=$build/venv-site pages=$build/site-pages

if ! [ -e "$venv/ready" ] || ! [ -x "$venv/bin/ruff" ]; then
  rm -rf "$venv"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { "$(PATH=/usr/bin:$PATH command -v python3)" -m venv "$venv" &&
    "$venv/bin/pip" install -q 'mkdocs<2' mkdocs-material 'mkdocstrings[python]' ruff; } >"$log" 2>&1; then
    echo "site: MkDocs is not to be had from PyPI: $(tail -n 1 "$log")"
    exit 77
  fi
  touch "$venv/ready"
fi

rm -rf "$pages"
mkdir -p "$pages/reference"
git ls-files README.md CHANGELOG.md CITATION.cff docs jobs tests/peers src tests/cli | while IFS= read -r file; do
  case $file in *.md | *.svg | *.png | *.ipynb | *.cff) ;; *) continue ;; esac
  mkdir -p "$pages/$(dirname "$file")"
  cp "$file" "$pages/$file"
done

cat >"$pages/reference/python.md" <<'PAGE'
# The Python package

[From Python](../docs/guide/python.md) shows it in use.

::: mrmf
    options:
      members: [train, init, plan, data, tune, compare, plot, load, write, keys]
::: mrmf.Run
::: mrmf.Config
::: mrmf.errors
    options:
      members: [MrmfError, ConfigError, UnknownKeyError, DataError, FaultError, Stopped]
::: mrmf.sklearn
PAGE

# The headers that <mrmf/mrmf.hpp> names, as they are: their comments are the reference.
{
  echo "# The C++ library"
  echo
  echo "[Installing](../docs/guide/installing.md) shows a program that uses it. These are the headers that"
  echo "\`mrmf/mrmf.hpp\` includes."
  for header in src/mrmf.hpp $(sed -n 's/^#include "\(.*\)"/\1/p' src/mrmf.hpp); do
    printf '\n## %s\n\n```cpp\n%s\n```\n' "$header" "$(cat "$header")"
  done
} >"$pages/reference/cpp.md"

sed "1a docs_dir: $pages\nsite_dir: $build/site" jobs/packaging/site/mkdocs.yml >"$build/mkdocs.yml"
NO_MKDOCS_2_WARNING=1 PYTHONPATH=jobs/packaging/python "$venv/bin/mkdocs" --quiet build --strict --clean -f "$build/mkdocs.yml"
echo "site: $build/site/index.html"
