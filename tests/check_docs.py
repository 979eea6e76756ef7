#!/usr/bin/env python3
"""Rules for the Markdown pages, run from the root by tests/check_source.sh: every relative link and #anchor leads somewhere, every
page that a source or script names is there, and every source or script that a page quotes, no page is too long, no line of
prose is too wide, and pictures are what their scripts draw. Prints what breaks them."""
import pathlib
import re
import subprocess
import sys

LINES = 500  # of a page
WIDTH = 120  # of a line of prose: tables and code blocks go as wide as they must
FREE = ("docs/results/",)  # what programs print of long runs
DRAWN = {"docs/method.svg": "docs/method_picture.py"}  # by scripts that print them
MADE_LATER = ("docs/results/gpu.md",)  # tests/gpu/check.py writes it on a GPU
QUOTING = re.compile(r"(README|docs/[\w-]+|docs/guide/[\w-]+)\.md")  # results and CHANGELOG.md may name what has gone since
QUOTED = re.compile(r"(?<![\w./$<>*-])[\w*-][\w.*-]*(?:/[\w.*-]+)+\.(?:cpp|hpp|inl|cuh?|py|sh|toml)(?![\w.*<-])")
ELSEWHERE = ("include/", "share/", "runs/", "build/")  # of an installed program, or made


def tracked():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True,
                           check=False).stdout.split("\n")
    if names == [""]:  # an export without git
        names = [str(path) for path in pathlib.Path().rglob("*") if path.is_file() and path.parts[0] != "build"]
    return sorted(pathlib.Path(name) for name in names if name and pathlib.Path(name).is_file())


def prose(text):
    """(line number, line) outside of code blocks."""
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence:
            yield number, line


def anchor_of(line):
    """What GitHub makes of a heading; nothing of other lines."""
    heading = re.match(r"#{1,6} +(.*)", line)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]) if heading else ""
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(text):
    found = set()
    for _, line in prose(text):
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
        anchor, count = anchor_of(line), 0
        while anchor + f"-{count}" * bool(count) in found:
            count += 1
        if anchor:
            found.add(anchor + f"-{count}" * bool(count))
    return found


def broken_links(page, text):
    for number, line in prose(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name) if name else page
            if not path.exists():
                yield f"{page}:{number}: {target}: there is no {path}"
            elif anchor and (path.suffix != ".md" or anchor not in anchors(path.read_text(encoding="utf-8"))):
                yield f"{page}:{number}: {target}: {path} has no heading of that name"


def broken_names(path, text):
    """Pages that a comment, message or script names by their path from the root."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"(?<![\w./])(?:docs|jobs|tests)/[\w/-]*\w\.md\b", line):
            if name not in MADE_LATER and not pathlib.Path(name).exists():
                yield f"{path}:{number}: there is no {name}"


def broken_quotes(page, text):
    """Sources and scripts that a page quotes by their path from the root; * stands for what it does in a shell."""
    for number, line in prose(text):
        for span in re.findall(r"`([^`]+)`", line):
            for name in QUOTED.findall(span):
                if not name.startswith(ELSEWHERE) and not any(pathlib.Path().glob(name)):
                    yield f"{page}:{number}: there is no {name}: a file is quoted by its path from the root, or by its name alone"


def outside_site(pages):
    """Pages of the guide that the site's menu does not have."""
    menu = pathlib.Path("jobs/packaging/site/mkdocs.yml").read_text(encoding="utf-8")
    for page in pages:
        if page.suffix == ".md" and str(page).startswith("docs/guide/") and f": {page}\n" not in menu:
            yield f"{page}: jobs/packaging/site/mkdocs.yml does not name it"


def too_large(page, text):
    lines = text.splitlines()
    if len(lines) > LINES:
        yield f"{page}: {len(lines)} lines, more than {LINES}: split it by what readers come for"
    place = str(page)
    for number, line in prose(text):
        place = f"{page}#{anchor_of(line)}" if line.startswith("#") else place
        if len(line) > WIDTH and not line.startswith("|") and not place.startswith(FREE):
            yield f"{page}:{number}: {len(line)} characters, more than {WIDTH}"


def stale_pictures():
    for picture, script in DRAWN.items():
        printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False).stdout
        if printed != pathlib.Path(picture).read_text(encoding="utf-8"):
            yield f"{picture} is not what {script} draws: {script} >{picture}"


def main():
    pages = tracked()
    broken = [*stale_pictures(), *outside_site(pages)]
    for path in pages:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            broken += [*broken_links(path, text), *broken_names(path, text), *too_large(path, text)]
            broken += broken_quotes(path, text) if QUOTING.fullmatch(str(path)) else []
        elif path.suffix in (".cpp", ".hpp", ".inl", ".cu", ".cuh", ".py", ".sh", ".txt", ".toml", ".job") or path.name == "Makefile":
            broken += broken_names(path, path.read_text(encoding="utf-8", errors="replace"))
    if broken:
        print("RULE: pages link to what is there, and keep to their size", *broken, sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
