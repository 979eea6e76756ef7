"""Files that are well-formed and mean harm: HDF5, TOML and JSON."""
import json
import os
import re

import h5py
import numpy as np

# Each maker replaces the file at `path`, which holds the data sets x, y, val_x and val_y.


def samples(rng):
    return rng.choice(("x", "val_x"))


def changed(path, name, **options):
    """The file with one data set made anew; its chunks are at most as large as it is, unless they may be larger."""
    with h5py.File(path, "a") as file:
        old = file[name][()]
        del file[name]
        if "maxshape" not in options:
            options["chunks"] = tuple(map(min, options["chunks"], old.shape))
        file.create_dataset(name, **{"data": old, **options})


def replaced(path, name, make):
    with h5py.File(path, "a") as file:
        del file[name]
        make(file, name)


def huge_shape(path, rng):
    """Contiguous or chunked, with sizes near powers of two, and nothing stored."""
    sizes = [1 << rng.choice((31, 32, 33, 40, 62)), rng.choice((1, 16, 1 << 31)), rng.choice((1, 2, 1 << 20))]
    rng.shuffle(sizes)
    chunks = tuple(min(size, 4) for size in sizes)
    replaced(path, rng.choice(("x", "y", "val_x", "val_y")), lambda file, name: file.create_dataset(name, sizes, "f4", chunks=chunks))


def zero_sizes(path, rng):
    shape = [32, 16, 2]
    shape[rng.randrange(3)] = 0
    replaced(path, samples(rng), lambda file, name: file.create_dataset(name, shape, "f4"))


def odd_rank(path, rng):
    shape = rng.choice(((), (32,), (32, 16), (2,) * 12, (32, 2, 2, 2, 2, 2)))
    replaced(path, rng.choice(("x", "y", "val_x", "val_y")), lambda file, name: file.create_dataset(name, shape, "f4"))


def tiny_chunks(path, rng):
    changed(path, samples(rng), chunks=(1, 1, 1), maxshape=(None, None, None))


def chunk_larger_than_the_data(path, rng):
    changed(path, samples(rng), chunks=(4096, 64, 2), maxshape=(None, None, 2))


def chunks_never_written(path, rng):
    def make(file, name):
        data = file.create_dataset(name, (32, 16, 2), "f4", chunks=(4, 16, 2))
        data[:8] = 1
    replaced(path, samples(rng), make)


def filters(path, rng):
    changed(path, samples(rng), chunks=(3, 16, 2), compression="gzip", shuffle=rng.random() < 0.5, fletcher32=True)


def damaged_chunk(path, rng):
    name = samples(rng)
    changed(path, name, chunks=(4, 16, 2), compression="gzip", fletcher32=True)
    with h5py.File(path) as file:
        place = file[name].id.get_chunk_info(rng.randrange(4)).byte_offset
    with open(path, "r+b") as file:
        file.seek(place + 5)
        file.write(b"\xff\xff\xff")


def scale_offset(path, rng):
    changed(path, samples(rng), chunks=(4, 16, 2), scaleoffset=4)


def virtual_source_missing(path, rng):
    def make(file, name):
        layout = h5py.VirtualLayout((32, 16, 2), "f4")
        layout[:] = h5py.VirtualSource("nowhere.h5", "x", (32, 16, 2))
        file.create_virtual_dataset(name, layout)
    replaced(path, samples(rng), make)


def virtual_of_itself(path, rng):
    def make(file, name):
        layout = h5py.VirtualLayout((32, 16, 2), "f4")
        layout[:] = h5py.VirtualSource(".", name, (32, 16, 2))
        file.create_virtual_dataset(name, layout)
    replaced(path, samples(rng), make)


def virtual_of_another(path, rng):
    other = path.parent / "other.h5"
    with h5py.File(path) as file, h5py.File(other, "w") as to:
        to["x"] = np.resize(file["x"][()], (rng.choice((32, 16)), 16, 2))

    def make(file, name):
        layout = h5py.VirtualLayout((32, 16, 2), "f4")
        rows = h5py.File(other)["x"].shape[0]
        layout[:rows] = h5py.VirtualSource("other.h5", "x", (rows, 16, 2))
        file.create_virtual_dataset(name, layout)
    replaced(path, samples(rng), make)


def links_in_a_circle(path, rng):
    def make(file, name):
        file[name] = h5py.SoftLink("/loop")
        file["loop"] = h5py.SoftLink(f"/{name}")
    replaced(path, samples(rng), make)


def external_link_to_itself(path, rng):
    replaced(path, samples(rng), lambda file, name: file.__setitem__(name, h5py.ExternalLink(os.path.basename(path), f"/{name}")))


def link_to_nowhere(path, rng):
    replaced(path, rng.choice(("y", "val_y")), lambda file, name: file.__setitem__(name, h5py.SoftLink("/nowhere")))


def group_in_a_circle(path, rng):
    with h5py.File(path, "a") as file:
        file["x_of"] = file["/"]
        del file["x"]


def group_in_its_place(path, rng):
    replaced(path, rng.choice(("x", "y", "val_x", "val_y")), lambda file, name: file.create_group(name))


def named_type_in_its_place(path, rng):
    replaced(path, samples(rng), lambda file, name: file.__setitem__(name, np.dtype("f4")))


def raw_bytes_in_another_file(path, rng):
    other = path.parent / "outside.bin"
    size = 32 * 16 * 2 * 4
    other.write_bytes(bytes(rng.choice((size, size // 2, 0))))
    replaced(path, samples(rng), lambda file, name: file.create_dataset(name, (32, 16, 2), "f4",
                                                              external=[(str(other), 0, h5py.h5f.UNLIMITED)]))


def other_types(path, rng):
    kind = rng.choice(("text", "variable text", "compound", "complex", "bool", "int64", "enum", "array", "reference", "opaque"))

    def make(file, name):
        if kind == "text":
            file.create_dataset(name, (32, 16, 2), "S4")
        elif kind == "variable text":
            file.create_dataset(name, (32, 16, 2), h5py.string_dtype())
        elif kind == "compound":
            file.create_dataset(name, (32, 16, 2), [("a", "f4"), ("b", "f4")])
        elif kind == "enum":
            file.create_dataset(name, (32, 16, 2), h5py.enum_dtype({"a": 1}, "i2"))
        elif kind == "array":
            file.create_dataset(name, (32, 16), np.dtype(("f4", (2,))))
        elif kind == "reference":
            file.create_dataset(name, (32, 16, 2), h5py.ref_dtype)
        elif kind == "opaque":
            file.create_dataset(name, (32, 16, 2), "V4")
        else:
            file.create_dataset(name, (32, 16, 2), {"complex": "c8", "bool": "?", "int64": "i8"}[kind])
    replaced(path, rng.choice(("x", "y", "val_x", "val_y")), make)


def numbers_that_are_none(path, rng):
    with h5py.File(path, "a") as file:
        file[samples(rng)][rng.randrange(16), 3, 1] = rng.choice((np.nan, np.inf, -np.inf, 3e38))


def many_names(path, rng):
    with h5py.File(path, "a") as file:
        group = file.create_group("many")
        for number in range(3000):
            group.create_group(f"x{number}")
        del file[samples(rng)]


def null_space(path, rng):
    replaced(path, samples(rng), lambda file, name: file.create_dataset(name, data=h5py.Empty("f4")))


def user_block(path, rng):
    with h5py.File(path) as file:
        arrays = {name: file[name][()] for name in file}
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = values


def newest_format(path, rng):
    with h5py.File(path) as file:
        arrays = {name: file[name][()] for name in file}
    with h5py.File(path, "w", libver="latest") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=(4, *values.shape[1:]), maxshape=(None, *values.shape[1:]))


def left_open_for_writing(path, rng):
    """As after a writer's crash: the newest format keeps a mark in its head."""
    newest_format(path, rng)
    data = bytearray(path.read_bytes())
    data[11] |= 1  # the consistency flags of superblock version 2 or 3
    path.write_bytes(data)


def no_hdf5(path, rng):
    path.write_bytes(rng.choice((b"", b"\x89HDF\r\n\x1a\n", b"CDF\x01" + bytes(100), b"x" * 5000)))


def folder_in_its_place(path, rng):
    path.unlink()
    path.mkdir()


def fifo_in_its_place(path, rng):
    path.unlink()
    os.mkfifo(path)


HDF5 = (huge_shape, zero_sizes, odd_rank, tiny_chunks, chunk_larger_than_the_data, chunks_never_written, filters, damaged_chunk,
        scale_offset, virtual_source_missing, virtual_of_itself, virtual_of_another, links_in_a_circle, external_link_to_itself,
        link_to_nowhere, group_in_a_circle, group_in_its_place, named_type_in_its_place, raw_bytes_in_another_file, other_types,
        numbers_that_are_none, many_names, null_space, user_block, newest_format, left_open_for_writing, no_hdf5,
        folder_in_its_place, fifo_in_its_place)


# Configurations.

def edited(path, old, new):
    text = path.read_text()
    if old not in text:  # as a run writes it out: kernel = [1, 1, 2]
        found = re.search(rf"^{old.split(' = ')[0]} = .*$", text, re.M)
        if found is None:  # or not at all
            path.write_text(f"{text}\n{new}\n")
            return
        old = found[0]
    path.write_text(text.replace(old, new, 1))


def deep_lists(path, rng):
    edited(path, "seed = 3", "seed = " + "[" * rng.choice((50, 1000, 100000)))


def deep_tables(path, rng):
    path.write_text(path.read_text() + "\n[" + ".".join(["a"] * rng.choice((50, 5000))) + "]\nb = 1\n")


def huge_numbers(path, rng):
    key, value = rng.choice((("batch = 8", "batch = 9223372036854775807"), ("batch = 8", "batch = 99999999999999999999"),
                             ("seed = 3", "seed = -1"), ("seed = 3", "seed = 18446744073709551616"),
                             ("learning_rate = 3e-3", "learning_rate = 1e999"), ("learning_rate = 3e-3", "learning_rate = nan"),
                             ("filters = 2", "filters = 4611686018427387904"), ("kernel = 2", "kernel = 2147483648"),
                             ("units = 4", "units = 4611686018427387904"), ("window = 2", "window = 9223372036854775807"),
                             ("epochs = 2", "epochs = 0"), ("rate = 0.1", "rate = 1e-400"), ("units = 4", "units = 3000000000")))
    edited(path, key, value)


def other_types_of_values(path, rng):
    key = rng.choice(("batch = 8", "seed = 3", "epochs = 2", "filters = 2", "folder = \"run\"", "files = [\"data.h5\"]"))
    value = rng.choice(("1979-05-27", "true", "[1, [2]]", "{ a = 1 }", "''", "\"\\u0000\"", "1.5", "inf"))
    edited(path, key, f"{key.split(' = ')[0]} = {value}")


def bytes_that_are_no_text(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data)):0] = rng.choice((b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\x1b[2J"))
    path.write_bytes(data)


def long_line(path, rng):
    edited(path, "seed = 3", f"seed = 3 # {'x' * 3_000_000}")


def many_layers(path, rng):
    path.write_text(path.read_text() + "".join(f'[[model.layers]]\ntype = "relu"\nname = "r{n}"\n' for n in range(20000)))


def names_of_files(path, rng):
    name = rng.choice(("", ".", "/", "/dev/null", "/dev/zero", "/dev/stdin", "data.h5/x", "x" * 5000, "a\\u0000b", "\\n", "~/data.h5",
                       "/proc/self/mem", "config.toml"))
    edited(path, "\"data.h5\"", f'"{name}"')


def names_of_run_folders(path, rng):
    name = rng.choice(("", ".", "..", "/", "data.h5", "notes.txt/run", "/dev/null", "/proc/run", "x" * 300, "runs/theirs"))
    edited(path, 'folder = "run"', f'folder = "{name}"')


def many_files(path, rng):
    edited(path, "\"data.h5\"", ", ".join(['"data.h5"'] * 5000))


CONFIGS = (deep_lists, deep_tables, huge_numbers, other_types_of_values, bytes_that_are_no_text, long_line, many_layers,
           names_of_files, names_of_run_folders, many_files, fifo_in_its_place, folder_in_its_place)


NAMES_OF_THEIR_OWN = (names_of_files, names_of_run_folders, many_files)  # the messages have those


# Records of runs: a JSON document, or a line of one.

def rewritten(path, change):
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    lines = change(lines)
    path.write_text("\n".join(lines) + "\n")


def other_kinds_of_values(path, rng):
    def change(lines):
        number = rng.randrange(len(lines))
        record = json.loads(lines[number])
        key = rng.choice(sorted(record))
        record[key] = rng.choice((None, "text", [], {}, -1, 1e308, True, [[1]], {"a": {}}, "\x1b[2J"))
        lines[number] = json.dumps(record)
        return lines
    rewritten(path, change)


def keys_that_are_gone(path, rng):
    def change(lines):
        number = rng.randrange(len(lines))
        record = json.loads(lines[number])
        del record[rng.choice(sorted(record))]
        lines[number] = json.dumps(record)
        return lines
    rewritten(path, change)


def deep_json(path, rng):
    depth = rng.choice((100, 100000))
    rewritten(path, lambda lines: [*lines[:-1], "[" * depth + "]" * depth])


def numbers_out_of_range(path, rng):
    def change(lines):
        number = rng.randrange(len(lines))
        record = json.loads(lines[number])
        numbers = [key for key, value in record.items() if isinstance(value, (int, float))]
        text = json.dumps(record)
        if numbers:
            key = rng.choice(numbers)
            text = text.replace(f'"{key}": {json.dumps(record[key])}', f'"{key}": {rng.choice(("1e999", "99999999999999999999", "-0"))}')
        lines[number] = text
        return lines
    rewritten(path, change)


def lines_repeated(path, rng):
    rewritten(path, lambda lines: lines + lines[-1:])


def lines_in_another_order(path, rng):
    rewritten(path, lambda lines: lines[::-1])


def other_json(path, rng):
    path.write_text(rng.choice(("", "null", "[]", "3", "{}", "\"text\"", "{", "\x00", "NaN", "{\"a\":1}{\"a\":2}")))


RECORDS = (other_kinds_of_values, keys_that_are_gone, deep_json, numbers_out_of_range, lines_repeated, lines_in_another_order,
           other_json, fifo_in_its_place, folder_in_its_place)
