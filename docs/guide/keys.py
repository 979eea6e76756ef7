#!/usr/bin/env python3
"""Writes docs/guide/keys.md: `mrmf presets --keys | docs/guide/keys.py`, or `make keys`. A test holds the page against the program."""
import re
import sys

HEAD = """# All keys

Every key of the configuration with its values, default and meaning, as `mrmf presets --keys` prints them. `make keys`
writes this page from the program. [Configuration](configuration.md) says how keys are written.

`ROLE` stands for `coarse`, `dense` and `finetune`; in `[[method.stages]]` for `coarse` and `dense`. A phase of the
role `baseline` takes the keys of `finetune`.

A key without a default either means "not used" or is needed: `data.files`, `data.train.samples`, `data.train.labels`,
`data.validation.samples`, `data.validation.labels`, and one of `model.preset` and `model.layers`.
"""


def split_default(text):
    """What a line says, and the default that stands at its end."""
    said = re.fullmatch(r"(.*?)(?:; ([^;]*) unless set)?", text)
    return said[1], said[2]


def read(text):
    """{section: [(key, layers, values, default, meaning)]} of what `mrmf presets --keys` prints; the roles as one."""
    sections, rows = {}, []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("["):
            rows = sections.setdefault(line, [])
        elif re.match(r"  \S", line):
            key, _, layers = line.strip().rstrip(")").partition("  (")
            values, default = split_default(lines[place + 1].strip())
            meaning, worded = split_default(lines[place + 2].strip())
            row = re.sub(r"\b(coarse|dense|finetune)\.", "ROLE.", key), layers, values, default or worded or "–", meaning
            if row not in rows:
                rows.append(row)
    return sections


def page(text):
    out = [HEAD]
    for section, rows in read(text).items():
        by_layer = any(layers for _, layers, *_ in rows)
        out.append(f"## `{section}`\n")
        out.append("| key | layers | value | default | meaning |" if by_layer else "| key | value | default | meaning |")
        out.append("|---|---|---|---|---|" if by_layer else "|---|---|---|---|")
        for key, layers, *rest in rows:
            cells = [f"`{key}`"] + [layers or "all"] * by_layer + rest
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    made = page(sys.stdin.read())
    if "`[run]`" not in made:
        sys.exit("keys.py: standard input is not what `mrmf presets --keys` prints")
    with open(__file__[:-3] + ".md", "w", encoding="utf-8") as file:
        file.write(made)
