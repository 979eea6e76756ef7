"""Fuses a coarse and a dense model of two runs: the layers below the flatten are the coarse model's, the rest the dense
one's. It exports both as safetensors, puts the tensors together and imports them as a model file."""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile


def read_tensors(path):
    """Metadata, and of every tensor its description and its bytes, in the file's order."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__")
    return metadata, {name: (entry, data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_tensors(path, metadata, tensors):
    header, at = {"__metadata__": metadata}, 0
    for name, (entry, data) in tensors.items():
        header[name] = dict(entry, data_offsets=[at, at + len(data)])
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data for _, data in tensors.values())


def bottom(metadata):
    """Names of the layers in front of the flatten."""
    names = []
    for layer in json.loads(metadata["network"])["layers"]:
        if layer["type"] == "flatten":
            return names
        names.append(layer["name"])
    sys.exit("fuse: the network has no flatten, so nothing says which layers a resolution is for")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--mrmf", "--coarse", "--dense", "--output"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    for run in (options.coarse, options.dense):
        if not os.path.exists(os.path.join(run, "result.json")):
            sys.exit(f"fuse: {run} is no finished run; the step before this one has failed")
    with tempfile.TemporaryDirectory() as scratch:
        read = {}
        for name in ("coarse", "dense"):
            path = os.path.join(scratch, name + ".safetensors")
            subprocess.run([options.mrmf, "export", getattr(options, name), "-o", path], check=True)
            read[name] = read_tensors(path)
        metadata, fused = read["dense"]
        taken = [name for name in fused if name.split(".")[0] in bottom(metadata)]
        for name in taken:
            if read["coarse"][1][name][0]["shape"] != fused[name][0]["shape"]:
                sys.exit(f"fuse: {name} has another shape in the coarse model")
            fused[name] = read["coarse"][1][name]
        path = os.path.join(scratch, "fused.safetensors")
        write_tensors(path, metadata, fused)
        subprocess.run([options.mrmf, "import", path, "--config", os.path.join(options.dense, "config.toml"), "-o", options.output, "--overwrite"], check=True)
    print(f"fuse: {len(taken)} of {len(fused)} tensors are the coarse model's")


if __name__ == "__main__":
    main()
