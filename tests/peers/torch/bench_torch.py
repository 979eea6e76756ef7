"""Training throughput of a preset network in PyTorch on the CPU.

    .venv-peers/bin/python tests/peers/torch/bench_torch.py [--length 1600] [--batch 512] [--threads 2] [--steps 9]
    .venv-peers/bin/python tests/peers/torch/bench_torch.py --network cosmoflow --length 64 --batch 8

float32, Adam, dropout 0.05, MSE, synthetic data already in the layout a variant likes. A step is zero_grad, forward,
loss, backward, Adam. All variants are warmed up first, then take turns step by step, so that a busy moment
hits all of them; the median of a variant's steps counts. The last line is JSON.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import time

import torch

from branched import UNet
from cosmoflow import CosmoFlow
from network import FULL, NeuronInverter

VARIANTS = {  # name: (channels-last: as 2-D for the 1-D network, torch.compile)
    "eager_channels_first": (False, False),
    "eager_channels_last": (True, False),
    "compile_channels_first": (False, True),
    "compile_channels_last": (True, True),
}


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def neuron_inverter(options, channels_last):
    """The network, an input in its layout, and the number of outputs."""
    model = NeuronInverter(options.length, FULL["channels"], FULL["dense"], dropout=0.05, two_d=channels_last)
    x = torch.randn(options.batch, 3, options.length)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
    return model, x, FULL["dense"][-1]


def cosmoflow(options, channels_last):
    model = CosmoFlow([options.length] * 3)
    x = torch.randn(options.batch, 4, *[options.length] * 3)
    if channels_last:
        model = model.to(memory_format=torch.channels_last_3d)
        x = x.contiguous(memory_format=torch.channels_last_3d)
    return model, x, 4


def unet3d(options, channels_last):
    model = UNet(3, 1, 1)
    x = torch.randn(options.batch, 1, *[options.length] * 3)
    if channels_last:
        model = model.to(memory_format=torch.channels_last_3d)
        x = x.contiguous(memory_format=torch.channels_last_3d)
    return model, x, 1


NETWORKS = {"neuron_inverter": neuron_inverter, "cosmoflow": cosmoflow, "unet3d": unet3d}


def make_step(options, channels_last, compiled):
    """A function that does one training step."""
    torch.manual_seed(1)
    model, x, outputs = NETWORKS[options.network](options, channels_last)
    positions = x.shape[2:] if options.network == "unet3d" else ()
    target = torch.rand(options.batch, outputs, *positions) * 2 - 1
    if channels_last and positions:
        target = target.contiguous(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)  # PyTorch's fastest Adam
    loss_of = torch.nn.MSELoss()
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(x), target).backward()
        optimizer.step()

    return step


def ready_steps(options):
    """(steps of the variants that run here, reasons of those that do not), compiled and warmed up."""
    steps, reasons = {}, {}
    for name in options.variants:
        try:
            step = make_step(options, *VARIANTS[name])
            for _ in range(options.warmup):
                step()
            steps[name] = step
        except Exception as error:  # torch.compile needs a compiler: say what is missing and go on with the others
            if not VARIANTS[name][1]:
                raise
            reasons[name] = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return steps, reasons


def measure(options):
    """{variant: result} of all variants."""
    steps, reasons = ready_steps(options)
    seconds = {name: [] for name in steps}
    for _ in range(options.steps):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - begin)
    results = {name: {"samples_per_second": round(options.batch / statistics.median(s), 3),
                      "fastest_step": round(options.batch / min(s), 3),
                      "milliseconds": [round(1e3 * t, 1) for t in s]} for name, s in seconds.items()}
    return results | {name: {"error": reason} for name, reason in reasons.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, default="neuron_inverter")
    parser.add_argument("--length", type=int, default=FULL["length"], help="or the edge of a cube")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=9, help="timed steps per variant")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {options.threads} threads, "
          f"{cpu_model()}, load {os.getloadavg()[0]:.2f}")
    print(f"{options.network}, length {options.length}, batch {options.batch}, float32, median of {options.steps} steps",
          flush=True)
    variants = measure(options)
    for name, result in variants.items():
        if "error" in result:
            print(f"  {name:24} not run: {result['error']}")
        else:
            print(f"  {name:24} {result['samples_per_second']:8.2f} samples/s  "
                  f"(fastest step {result['fastest_step']:.2f})")
    best = max((name for name in variants if "error" not in variants[name]),
               key=lambda name: variants[name]["samples_per_second"])
    print(json.dumps({
        "peer": "PyTorch", "version": torch.__version__, "threads": options.threads, "cpu": cpu_model(),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "network": options.network, "length": options.length, "batch": options.batch, "variants": variants, "best": best,
        "samples_per_second": variants[best]["samples_per_second"]}))


if __name__ == "__main__":
    main()
