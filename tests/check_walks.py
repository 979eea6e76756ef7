#!/usr/bin/env python3
"""Rules for the tables that lead through the sources, run from the root by tests/check_source.sh: the walks of docs/architecture.md
call what they say, file by file, and stay short enough to read; the lists of docs/to-add.md name files that are there, and in each an
example that it holds. Prints what breaks them."""
import pathlib
import re
import sys

WALKS = pathlib.Path("docs/architecture.md"), ["file", "what it calls", "defined in the next as"]
LISTS = pathlib.Path("docs/to-add.md"), ["file", "what goes there", "example"]
WALK_COUNT = 2
TO_ADD = ("a configuration key", "a layer kind", "a backend operation", "a subcommand", "a method")
FILES, LINES = 8, 900  # of a walk


def tables(page, head):
    """(heading above it, rows of cells) for each table with these column heads."""
    title, rows, found = "", None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if line.startswith("#"):
            title = line.lstrip("# ")
        if cells == head:
            rows = []
            found.append((title, rows))
        elif cells is None:
            rows = None
        elif rows is not None and not set(line) <= set("|-: "):
            rows.append(cells)
    return found


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def holds(text, code):
    """Whether the text has this code; "..." stands for anything on the same line."""
    return re.search(".*".join(re.escape(part) for part in code.split("...")), text) is not None


def read(place, cell):
    """(path, text) of the file that a cell names; what is wrong instead of the text."""
    names = quoted(cell)
    path = pathlib.Path(names[0] if len(names) == 1 else "")
    if not path.is_file():
        return path, None, [f"{place}: {cell}: there is no such file"]
    return path, path.read_text(encoding="utf-8"), []


def broken_walk(title, rows):
    place = f"{WALKS[0]}, {title}"
    files = [read(place, row[0]) for row in rows]
    for _, _, wrong in files:
        yield from wrong
    if any(text is None for _, text, _ in files):
        return
    for i, (_, call, definition) in enumerate(rows):
        (path, text, _), (next_path, next_text, _) = files[i], files[min(i + 1, len(rows) - 1)]
        last = i + 1 == len(rows)
        if not quoted(call) or not (quoted(definition) or last):
            yield f"{place}: {path}: the row quotes no call, or not what it leads to"
        for code in quoted(call):
            if not holds(text, code):
                yield f"{place}: {path} has no `{code}`"
        for code in quoted(definition):
            if not holds(next_text, code):
                yield f"{place}: {next_path} has no `{code}`"
    lines = {path: len(text.splitlines()) for path, text, _ in files}
    if len(lines) > FILES or sum(lines.values()) >= LINES:
        yield f"{place}: {len(lines)} files of {sum(lines.values())} lines; a walk has at most {FILES}, and fewer than {LINES} lines"


def broken_list(title, rows):
    place = f"{LISTS[0]}, {title}"
    for file, _, example in rows:
        path, text, wrong = read(place, file)
        yield from wrong
        if not quoted(example):
            yield f"{place}: {path}: the row names no example"
        for code in quoted(example):
            if text is not None and not holds(text, code):
                yield f"{place}: {path} has no `{code}`"


def main():
    walks, lists, broken = tables(*WALKS), tables(*LISTS), []
    if len(walks) != WALK_COUNT:
        broken.append(f"{WALKS[0]}: {len(walks)} walks instead of {WALK_COUNT}")
    if [title for title, _ in lists] != ["To add " + what for what in TO_ADD]:
        broken.append(f"{LISTS[0]}: its tables must say how to add, in this order, {', '.join(TO_ADD)}")
    for check, found in ((broken_walk, walks), (broken_list, lists)):
        for title, rows in found:
            uneven = [row for row in rows if len(row) != 3]
            broken += [f"{title}: three cells in a row, not: {' | '.join(row)}" for row in uneven] or list(check(title, rows))
    if broken:
        print("RULE: walks and lists (docs/architecture.md, docs/to-add.md) lead through the sources as they are", *broken, sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
