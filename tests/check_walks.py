#!/usr/bin/env python3
"""Rules for the tables that lead through the sources, run from the root by tests/check_source.sh. The walk of
docs/architecture.md quotes what its files hold, file by file; a leg of it is short enough to read, and begins in the file
in which the leg before ends. The lists of docs/to-add.md name files that are there, in each an example that it holds, and
no more product files than promised; the example is one that the program has. Prints what breaks them."""
import pathlib
import re
import sys

WALKS = pathlib.Path("docs/architecture.md"), ["file", "what happens there", "goes on in the next at"]
LISTS = pathlib.Path("docs/to-add.md"), ["file", "what goes there", "example"]
LEGS = 3
# What can be added: how many product files that takes at most, where the program registers what it has, and the example's name
# there, which its list must use.
TO_ADD = {"a configuration key": (1, "docs/guide/keys.md", "`training.optimizer.warmup`", "warmup"),
          "a layer kind": (4, "layers/spec.hpp", "KIND(dropout, ", "dropout"),
          "a loss": (5, "src/config/loss_metric_keys.cpp", '"dice"', "dice"),
          "a backend operation": (7, "kernels/operations.hpp", "norm_relu_pool, (", "norm_relu_pool"),
          "a subcommand": (2, "src/cli/commands.hpp", "add_plot,", "add_plot"),
          "a method": (4, "src/config/method_config.hpp", '"mrt"', "mrt")}
PRODUCT = ("src/", "layers/", "kernels/", "io/", "mpi/")
FILES, LINES = 8, 1250  # of a leg


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


def without_comments(text):
    """The code alone, every character in its place."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'//[^\n]*|/\*.*?\*/', blank, text, flags=re.S)


def read(place, cell):
    """(path, text) of the file that a cell names; what is wrong instead of the text."""
    names = quoted(cell)
    path = pathlib.Path(names[0] if len(names) == 1 else "")
    if not path.is_file():
        return path, None, [f"{place}: {cell}: there is no such file"]
    return path, without_comments(path.read_text(encoding="utf-8")), []


def broken_leg(title, rows):
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
            yield f"{place}: {path}: the row quotes nothing, or not what it leads to"
        for code in quoted(call):
            if not holds(text, code):
                yield f"{place}: {path} has no `{code}`"
        for code in quoted(definition):
            if not holds(next_text, code):
                yield f"{place}: {next_path} has no `{code}`"
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path, _, _ in files}
    if len(lines) > FILES or sum(lines.values()) >= LINES:
        yield f"{place}: {len(lines)} files of {sum(lines.values())} lines; a leg has at most {FILES}, and fewer than {LINES} lines"


def broken_list(title, rows):
    place = f"{LISTS[0]}, {title}"
    most, registry, entry, name = TO_ADD[title.removeprefix("To add ")]
    product = {quoted(row[0])[0] for row in rows if quoted(row[0]) and quoted(row[0])[0].startswith(PRODUCT)}
    if len(product) > most:
        yield f"{place}: {len(product)} product files, and {most} are promised"
    if entry not in pathlib.Path(registry).read_text(encoding="utf-8"):
        yield f"{place}: {registry} has no {entry}: the example is not of the program"
    if not any(name in code for row in rows for code in quoted(row[2])):
        yield f"{place}: no example is of {name}"
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
    if len(walks) != LEGS:
        broken.append(f"{WALKS[0]}: {len(walks)} legs of the walk instead of {LEGS}")
    for (_, before), (title, rows) in zip(walks, walks[1:]):
        if before and rows and before[-1][0] != rows[0][0]:
            broken.append(f"{WALKS[0]}, {title}: begins in {rows[0][0]}, and the leg before ends in {before[-1][0]}")
    if [title for title, _ in lists] != ["To add " + what for what in TO_ADD]:
        broken.append(f"{LISTS[0]}: its tables must say how to add, in this order, {', '.join(TO_ADD)}")
    for check, found in ((broken_leg, walks), (broken_list, lists)):
        for title, rows in found:
            uneven = [row for row in rows if len(row) != 3]
            broken += [f"{title}: three cells in a row, not: {' | '.join(row)}" for row in uneven] or list(check(title, rows))
    if broken:
        print("RULE: walk and lists (docs/architecture.md, docs/to-add.md) lead through the sources as they are", *broken, sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
