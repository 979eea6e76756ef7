"""How much other processes that compute slow mrmf's training, and PyTorch's, on this machine.

    .venv-peers/bin/python tests/peers/shared_machine.py [--build build] [--batch 128 512] [--others 0 1 2] [--repeats 5]

Both train the Neuron Inverter network (bench training, torch/bench_torch.py), one after the other, while so many other
processes count. That is done `repeats` times, so that both see the same minutes. A figure is the median over the repeats
of a run's mean time of a step; the factor is that time over the one with no others. --ours NAME=VALUE ... sets variables
for a run of mrmf: given more than once, each is measured, in turns (`--ours --ours GOMP_SPINCOUNT=300000`).
The last line is JSON.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


@contextlib.contextmanager
def others_computing(count):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def last_line(words, **variables):
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, **variables))
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(options, batch, variables):
    result = last_line([options.build / "mrmf", "bench", "training", "--batch", str(batch), "--threads", str(options.threads),
                        "--steps", str(options.steps)], OMP_NUM_THREADS=str(options.threads), **variables)
    return result["mean_step_seconds"]


def torch(options, batch):
    result = last_line([sys.executable, HERE / "torch" / "bench_torch.py", "--batch", str(batch), "--threads",
                        str(options.threads), "--steps", str(options.steps), "--warmup", "1", "--variants", options.variant])
    return statistics.mean(result["variants"][options.variant]["milliseconds"]) / 1e3


def programs(options):
    """{name: function of the batch}"""
    settings = [dict(word.split("=", 1) for word in words) for words in options.ours or [[]]]
    named = {" ".join(["mrmf", *(f"{k}={v}" for k, v in given.items())]): given for given in settings}
    runs = {name: lambda batch, given=given: ours(options, batch, given) for name, given in named.items()}
    return runs | ({} if options.no_torch else {"PyTorch": lambda batch: torch(options, batch)})


def measure(options):
    """{(program, batch, others): seconds of each repeat}"""
    seconds = {}
    for repeat in range(options.repeats):
        for batch in options.batch:
            for count in options.others:
                with others_computing(count):
                    for name, run in programs(options).items():
                        seconds.setdefault((name, batch, count), []).append(run(batch))
                        print(f"repeat {repeat + 1}: {name}, batch {batch}, {count} others: "
                              f"{seconds[name, batch, count][-1]:.3f} s/step", file=sys.stderr, flush=True)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--others", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variant", default="eager_channels_last", help="of PyTorch")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--ours", nargs="*", action="append", metavar="NAME=VALUE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the other processes end, too

    seconds = measure(options)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    print(f"{'':40}{'batch':>6}{'others':>8}{'s/step':>9}{'factor':>8}   each repeat's s/step")
    rows = []
    for (name, batch, count), values in seconds.items():
        middle, alone = medians[name, batch, count], medians.get((name, batch, 0))
        factor = round(middle / alone, 2) if alone else None
        print(f"{name:40}{batch:6}{count:8}{middle:9.3f}{factor if factor else '-':>8}   "
              + " ".join(f"{value:.3f}" for value in values))
        rows.append({"program": name, "batch": batch, "others": count, "seconds": middle, "factor": factor})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
