#!/usr/bin/env python3
"""Makes build/mrmf-VERSION-py3-none-PLATFORM.whl: the relocatable program (jobs/packaging/bundle.sh) and the Python package.

Usage: make_wheel.py [BUILD]. The platform's tag is that of the newest glibc which a file in it asks for.
"""

import base64
import hashlib
import os
import platform
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIMIT_MB = 60
TIME = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same wheel

METADATA = """Metadata-Version: 2.1
Name: mrmf
Version: {version}
Summary: Trains convolutional networks on large scientific arrays by multi-resolution model fusion
Requires-Python: >=3.9
Requires-Dist: numpy
Requires-Dist: h5py
Requires-Dist: tomli; python_version < "3.11"
Provides-Extra: all
Requires-Dist: pandas; extra == "all"
Requires-Dist: tqdm; extra == "all"
Requires-Dist: matplotlib; extra == "all"
Requires-Dist: scikit-learn; extra == "all"
Description-Content-Type: text/markdown

{description}"""

ENTRY_POINTS = """[console_scripts]
mrmf = mrmf.program:main
mrmf-mpirun = mrmf.program:mpirun
"""


def fail(text: str) -> None:
    sys.exit(f"wheel: {text}")


def glibc_of(folder: Path) -> str:
    """The newest glibc whose symbols a program or library in the folder asks for, such as "2_34"."""
    newest = (2, 5)
    for path in folder.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        symbols = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
        for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", symbols):
            newest = max(newest, (int(major), int(minor)))
    return f"{newest[0]}_{newest[1]}"


class Wheel:
    """A wheel that is being written; close() adds the record of its files."""

    def __init__(self, path: Path, info: str):
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self._info, self._record = info, []

    def add(self, name: str, content: bytes, executable: bool = False) -> None:
        entry = zipfile.ZipInfo(name, TIME)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self._zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")

    def add_folder(self, folder: Path, name: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:  # of links, what they lead to: a wheel has none
                self.add(f"{name}/{path.relative_to(folder)}", path.read_bytes(), os.access(path, os.X_OK))

    def close(self) -> None:
        record = f"{self._info}/RECORD"
        self._zip.writestr(zipfile.ZipInfo(record, TIME), "\n".join([*self._record, f"{record},,", ""]))
        self._zip.close()


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    version = (ROOT / "VERSION").read_text().split()[0]
    subprocess.run([ROOT / "jobs/packaging/bundle.sh", "--without-tests", "--folder-only", build], check=True, stdout=sys.stderr)
    program = build / "bundle" / "mrmf"
    tag = f"py3-none-manylinux_{glibc_of(program)}_{platform.machine()}"
    target, info = build / f"mrmf-{version}-{tag}.whl", f"mrmf-{version}.dist-info"
    partial = target.with_suffix(".part")
    wheel = Wheel(partial, info)
    wheel.add_folder(ROOT / "jobs/packaging/python/mrmf", "mrmf")
    wheel.add_folder(program, "mrmf/program")
    description = (ROOT / "docs/guide/python.md").read_text()
    wheel.add(f"{info}/METADATA", METADATA.format(version=version, description=description).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: mrmf\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.close()
    size = partial.stat().st_size / 1e6
    if size >= LIMIT_MB:
        partial.unlink()
        fail(f"the wheel has {size:.0f} MB; the limit is {LIMIT_MB} MB")
    for old in build.glob("mrmf-*.whl"):
        old.unlink()
    os.replace(partial, target)
    print(f"wheel: {os.path.relpath(target)}, {size:.0f} MB")


main()
