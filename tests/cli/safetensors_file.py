"""Reads and writes safetensors files with NumPy alone, also bad ones."""
import json
import struct

import numpy as np


def read(path):
    """The header's metadata, and the tensors by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    return metadata, {name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
                      for name, entry in header.items()}


def layout(tensors, metadata=None):
    """The header and the data of a good file, to be written or spoilt."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, values in tensors.items():
        bytes_ = np.ascontiguousarray(values, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    return header, data


def write_raw(path, header, data, length=None):
    """`header`: an object or its text. `length`: what the file says of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + data)


def write(path, tensors, metadata=None):
    write_raw(path, *layout(tensors, metadata))
