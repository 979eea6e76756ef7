#!/usr/bin/env python3
"""Writes docs/tutorial.ipynb from docs/tutorial.py, whose cells begin with "# %%". Usage: make_notebook.py [--check]."""
import json
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def cell(number, text):
    head, _, body = text.partition("\n")
    lines = body.strip("\n").split("\n")
    is_text = "[markdown]" in head
    if is_text:
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
    source = [line + "\n" for line in lines[:-1]] + lines[-1:]
    common = {"id": f"cell{number}", "metadata": {}, "source": source}
    return {"cell_type": "markdown", **common} if is_text else \
        {"cell_type": "code", "execution_count": None, "outputs": [], **common}


def notebook():
    cells = (DOCS / "tutorial.py").read_text(encoding="utf-8").split("# %%")[1:]
    return json.dumps({"cells": [cell(number, text) for number, text in enumerate(cells)],
                       "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                                    "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5},
                      indent=1, ensure_ascii=False) + "\n"


if "--check" in sys.argv:
    if (DOCS / "tutorial.ipynb").read_text(encoding="utf-8") != notebook():
        sys.exit("docs/tutorial.ipynb is not what jobs/packaging/python/make_notebook.py makes of docs/tutorial.py; run it")
else:
    (DOCS / "tutorial.ipynb").write_text(notebook(), encoding="utf-8")
