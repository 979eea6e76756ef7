"""Records of a small run as inputs for fuzz_records: BUILD/fuzz/seeds/records. The first byte says which they are. And its
model as safetensors for fuzz_safetensors."""
import os
import pathlib
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
os.environ.setdefault("MRMF", str(BUILD / "mrmf"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import cases  # noqa: E402
import h5py  # noqa: E402


def texts(folder):
    """(kind, text): epochs, stages, results, states of training, histories."""
    run = folder / "run"
    for kind, name in ((0, "epochs.jsonl"), (1, "stages.jsonl")):
        for line in (run / name).read_text().splitlines():
            yield kind, line
    for path in run.glob("checkpoints/phase-*.h5"):
        with h5py.File(path) as file:
            yield 3, file["progress"][0].decode()


with tempfile.TemporaryDirectory() as scratch:
    stopped, done = pathlib.Path(scratch, "stopped"), pathlib.Path(scratch, "done")
    for place, make in ((stopped, cases.stopped), (done, cases.finished())):
        place.mkdir()
        make(place)
    cases.mrmf(done, "export", "run", "-o", str((BUILD / "fuzz/seeds/safetensors/model").resolve()), "--format", "safetensors",
               "--overwrite")
    found = [*texts(stopped), *texts(done), (2, (done / "run/result.json").read_text())]
    for number, (kind, text) in enumerate(found):
        (BUILD / f"fuzz/seeds/records/{number}").write_bytes(bytes([kind]) + text.encode())
