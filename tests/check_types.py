#!/usr/bin/env python3
"""A type has one definition (C++'s one-definition rule), run from the root by tests/check_source.sh. Compilers see one file at a
time, so two types of one name in different files go unnoticed until the linker takes one's functions for both: then a build
without inlining crashes, and one with it does not. Prints the names of structs, classes, unions, enumerations and aliases that
two files define, outside of anonymous namespaces. Aliases of the same text are one. `--self-test` shows what is found."""
import collections
import pathlib
import re
import sys

FOLDERS = ("src", "layers", "kernels", "io", "mpi", "tests")
SUFFIXES = {".cpp", ".hpp", ".inl", ".cu", ".cuh", ".h"}
# Programs and modules of their own, which are linked with no other file that defines the same names.
APART = ("tests/emulated/", "tests/cuda/", "tests/onnx/", "tests/peers/", "tests/fuzz/", "tests/faults/", "tests/sanitize/")
KEYS = ("struct", "class", "union", "enum")
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|[{}();<>=,:\[\]]|[^\s\w]|\w+")


def tokens_of(text):
    text = SKIPPED.sub(lambda match: " " if match[0][0] == "/" else ' "" ', text)
    return TOKEN.findall(PREPROCESSOR.sub("", text))


def without_brackets(head, opening, closing):
    """The tokens that are not between such brackets."""
    depth, left = 0, []
    for token in head:
        depth += token == opening
        if depth == 0:
            left.append(token)
        depth -= token == closing and depth > 0
    return left


def without_template(head):
    """What follows template <...>, and the same for requires (...)."""
    while head[:1] == ["template"]:
        depth, end = 0, 1
        for end, token in enumerate(head[1:], 1):
            depth += (token == "<") - (token == ">")
            if depth == 0:
                break
        head = head[end + 1:]
    return head


def type_of(head):
    """The name that the tokens in front of a brace define as a type; else nothing."""
    head = without_brackets(without_template(head), "[", "]")
    key = next((i for i, token in enumerate(head) if token in KEYS), None)
    if key is None or any(token in ("(", "=", "operator") for token in head[:key]):
        return ""
    head = [token for token in without_brackets(head[key:], "(", ")") if token not in (*KEYS, "alignas", "final")]
    name, depth = "", 0
    for token in head:  # up to the bases, or the type of an enumeration; <...> of a specialisation is part of the name
        depth += (token == "<") - (token == ">")
        if depth == 0 and (token == ":" or (name and token not in ("::", ">") and not name.endswith("::"))):
            break
        name += token
    return name


def alias_of(head):
    """(name, text) of a `using` or `typedef`."""
    head = without_template(head)
    if head[:1] == ["using"] and len(head) > 3 and head[2] == "=":
        return head[1], " ".join(head[3:])
    if head[:1] == ["typedef"] and "(" not in head:
        return head[-1], " ".join(head[1:-1])
    return None


def definitions(text):
    """(qualified name, text of an alias or nothing) of all types that other files can see, but for members."""
    scopes, head, found = [], [], []  # a scope is a namespace's name, or None for what hides what is in it

    def define(name, alias=""):
        if name and None not in scopes:
            found.append(("::".join([part for part in scopes if part] + [name]), alias))

    for token in tokens_of(text):
        if token == "{":
            if "namespace" in head:
                scopes.append("".join(head[head.index("namespace") + 1:]) or None)
            elif head == ["extern", '"', '"'] or head == ["extern", '""']:
                scopes.append("")
            else:
                define(type_of(head))
                scopes.append(None)
            head = []
        elif token == "}":
            if scopes:
                scopes.pop()
            head = []
        elif token == ";":
            if alias := alias_of(head):
                define(*alias)
            head = []
        else:
            head.append(token)
    return found


def clashes(files):
    """Lines, one for each name; files: (name, text)."""
    of_name = collections.defaultdict(dict)
    for file, text in files:
        for name, alias in definitions(text):
            of_name[name].setdefault(file, set()).add(alias)
    for name, where in sorted(of_name.items()):
        aliases = set().union(*where.values())
        if len(where) > 1 and (len(aliases) > 1 or "" in aliases):
            yield f"{name}: {', '.join(sorted(where))}"


def self_test():
    first = """
        namespace a { namespace { struct Hidden { int i; }; } struct Both : Base<int> { struct Inner {}; };
        template <class T> class Listed final { void f() { struct Local {}; } }; enum class Word : int { x };
        struct alignas(64) Wide { char c = '{'; };  // struct Comment {
        class Later; const char* text = "struct Text {"; using Name = int; using Same = long;
        template <> struct Made<int> {}; struct Outer::Part {}; inline Both make(struct Both b) { return {b}; } }"""
    second = """
        namespace a { namespace { struct Hidden { char c; }; } class Later { }; using Name = char; using Same = long; }
        namespace a::b { struct Both {}; } struct Both {}; namespace a { union Wide {}; struct Text {}; struct Comment {};
        template <int N> struct Listed {}; enum Word { y }; struct [[nodiscard]] Both : Base {}; struct Inner {}; struct Local {};
        template <> struct Made<long> {}; struct Outer::Part { int i; }; }"""
    found = [line.split(": ")[0] for line in clashes([("1", first), ("2", second)])]
    wanted = ["a::Both", "a::Listed", "a::Name", "a::Outer::Part", "a::Wide", "a::Word"]
    if found != wanted:
        print(f"RULE: tests/check_types.py finds what it is to find\n{found} instead of {wanted}")
    return found == wanted


def main():
    paths = [path for folder in FOLDERS for path in sorted(pathlib.Path(folder).rglob("*")) if path.suffix in SUFFIXES]
    files = [(str(path), path.read_text(encoding="utf-8")) for path in paths if not str(path).startswith(APART)]
    lines = list(clashes(files))
    if lines:
        print("RULE: a type is defined in one file, or in an anonymous namespace", *lines, sep="\n")
    return bool(lines) or not self_test()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"]:
        for argument in sys.argv[2:]:
            print(*definitions(pathlib.Path(argument).read_text(encoding="utf-8")), sep="\n")
    else:
        sys.exit(main())
