"""Does every kernel of a CUDA module write something? nvcc drops the body of a kernel that reaches a function of the host,
such as the memcmp behind std::array's ==, and says nothing: the kernel runs, and does nothing. The emulator, which
compiles the same source for the host, cannot see that; the module's PTX shows it.

    kernel_bodies.py build/libmrmf_cuda.so
"""
import re
import sys

ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(")
WRITES = re.compile(r"\b(st|red|atom|call)\b[.\s]")


def body_of(text, begin):
    """From the first brace on up to the one that closes it: bodies have blocks of their own."""
    first = at = text.index("{", begin)
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[first:at]
        at += 1


def empty_kernels(text):
    """(names of kernels, those of them that neither write nor call)"""
    kernels = [(entry[1], body_of(text, entry.end())) for entry in ENTRY.finditer(text)]
    return [name for name, _ in kernels], [name for name, body in kernels if not WRITES.search(body)]


def main(path):
    with open(path, "rb") as file:
        text = file.read().decode("ascii", errors="replace")
    names, empty = empty_kernels(text)
    if not names:
        print(f"kernel_bodies: {path} has no PTX that can be read")
        return 1
    for name in empty:
        print(f"kernel_bodies: the body of {name} is gone: it calls what a device has not")
    print(f"kernel_bodies: {len(names)} kernels, {len(empty)} without a body")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
