"""Training throughput of a network in PyTorch on the CPU.

    .venv-peers/bin/python tests/peers/torch/bench_torch.py [--sample 1600x3] [--batch 512] [--threads 2] [--steps 9]
    .venv-peers/bin/python tests/peers/torch/bench_torch.py --network cosmoflow --sample 64x64x64x4 --batch 8

float32, or bf16 by autocast; Adam, dropout 0.05, MSE, synthetic data already in the layout a variant likes. Denormal
numbers are flushed to zero, as PyTorch's tuning guide advises. A step is zero_grad, forward,
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

from branched import ResNet, UNet
from cosmoflow import CosmoFlow
from network import FULL, NeuronInverter

VARIANTS = {  # name: (channels-last: as 2-D for the 1-D network, torch.compile, bf16)
    "eager_channels_first": (False, False, False),
    "eager_channels_last": (True, False, False),
    "compile_channels_first": (False, True, False),
    "compile_channels_last": (True, True, False),
    "eager_channels_last_bf16": (True, False, True),
    "compile_channels_last_bf16": (True, True, True),
}


HOPELESS = 4  # so many times slower than another of its precision in the warm-up, a variant is not timed in turns


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


class Plane(torch.nn.Module):
    """The network of ../plane.toml."""

    def __init__(self, height, width, channels):
        super().__init__()
        self.convs = torch.nn.ModuleList([torch.nn.Conv2d(channels, 16, 3), torch.nn.Conv2d(16, 32, 3)])
        for _ in self.convs:
            height, width = (height - 2) // 2, (width - 2) // 2
        self.hidden, self.output = torch.nn.Linear(32 * height * width, 64), torch.nn.Linear(64, 5)

    def forward(self, x):
        for conv in self.convs:
            x = torch.nn.functional.max_pool2d(torch.relu(conv(x)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # a view of channels-last memory
        return self.output(torch.relu(self.hidden(x)))


NETWORKS = {
    "neuron_inverter": lambda axes, channels, flat: NeuronInverter(*axes, FULL["channels"], FULL["dense"], dropout=0.05,
                                                                   two_d=flat),
    "cosmoflow": lambda axes, channels, flat: CosmoFlow(axes),
    "unet3d": lambda axes, channels, flat: UNet(3, channels, 1),
    "resnet": lambda axes, channels, flat: ResNet(len(axes), channels, 1),
    "plane": lambda axes, channels, flat: Plane(*axes, channels),
}


def in_layout(tensor, channels_last):
    if not channels_last or tensor.ndim < 4:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last if tensor.ndim == 4 else torch.channels_last_3d)


def make_step(options, channels_last, compiled, bf16):
    """A function that does one training step."""
    torch.manual_seed(1)
    *axes, channels = [int(size) for size in options.sample.split("x")]
    flat = channels_last and len(axes) == 1  # the 1-D network as a 2-D one of height 1
    model = NETWORKS[options.network](axes, channels, flat)
    x = torch.randn(options.batch, channels, *([1] if flat else []), *axes)
    if channels_last:
        model = model.to(memory_format=torch.channels_last_3d if x.ndim == 5 else torch.channels_last)
    x = in_layout(x, channels_last)
    with torch.no_grad():
        target = in_layout(torch.rand_like(model(x)) * 2 - 1, channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)  # PyTorch's fastest Adam
    loss_of = torch.nn.MSELoss()
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            y = forward(x)
        loss_of(y.float(), target).backward()
        optimizer.step()

    return step


def is_hopeless(name, seconds):
    """Whether another variant of the same precision is much faster, or any is out of sight, as beside bf16 on processors
    that lack it. `seconds`: of the variants' last warm-up steps."""
    alike = min(s for other, s in seconds.items() if VARIANTS[other][2] == VARIANTS[name][2])
    return seconds[name] > HOPELESS * alike or seconds[name] > 5 * HOPELESS * min(seconds.values())


def ready_steps(options):
    """(steps of the variants that run here, seconds of their last warm-up step, reasons of those that do not run)."""
    steps, seconds, reasons = {}, {}, {}
    for name in options.variants:
        try:
            step = make_step(options, *VARIANTS[name])
            for done in range(max(2, options.warmup)):
                begin = time.perf_counter()
                step()
                seconds[name] = time.perf_counter() - begin
                if (done or not VARIANTS[name][1]) and is_hopeless(name, seconds):  # the first step compiles
                    break
            steps[name] = step
        except Exception as error:  # torch.compile needs a compiler: say what is missing and continue with the others
            if not any(VARIANTS[name][1:]):
                raise
            seconds.pop(name, None)
            reasons[name] = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return steps, seconds, reasons


def measure(options):
    """{variant: result} of all variants. A hopeless one has its last warm-up step alone."""
    steps, warm, reasons = ready_steps(options)
    seconds = {name: [] for name in steps}
    takes_turns = [name for name in steps if not is_hopeless(name, warm)]
    for _ in range(options.steps):
        for name in takes_turns:
            begin = time.perf_counter()
            steps[name]()
            seconds[name].append(time.perf_counter() - begin)
    results = {}
    for name, measured in seconds.items():
        measured = measured or [warm[name]]
        results[name] = {"samples_per_second": round(options.batch / statistics.median(measured), 3),
                         "fastest_step": round(options.batch / min(measured), 3),
                         "milliseconds": [round(1e3 * t, 1) for t in measured]}
    return results | {name: {"error": reason} for name, reason in reasons.items()}


def best_of(variants, bf16):
    """The fastest variant of a precision, or None."""
    ran = [name for name in variants if "error" not in variants[name] and VARIANTS[name][2] == bf16]
    return max(ran, key=lambda name: variants[name]["samples_per_second"], default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, default="neuron_inverter")
    parser.add_argument("--sample", default="1600x3", help="positions per axis, then channels: 64x64x64x4")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=9, help="timed steps per variant")
    parser.add_argument("--warmup", type=int, default=3, help="steps before, the first of which compiles; at least 2")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)

    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {options.threads} threads, "
          f"{cpu_model()}, load {os.getloadavg()[0]:.2f}")
    print(f"{options.network}, sample {options.sample}, batch {options.batch}, median of {options.steps} steps",
          flush=True)
    variants = measure(options)
    for name, result in variants.items():
        if "error" in result:
            print(f"  {name:24} not run: {result['error']}")
        else:
            print(f"  {name:24} {result['samples_per_second']:8.2f} samples/s  "
                  f"(fastest step {result['fastest_step']:.2f})")
    best, best_bf16 = best_of(variants, False), best_of(variants, True)
    print(json.dumps({
        "peer": "PyTorch", "version": torch.__version__, "threads": options.threads, "cpu": cpu_model(),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "network": options.network, "sample": options.sample, "batch": options.batch, "variants": variants, "best": best,
        "samples_per_second": best and variants[best]["samples_per_second"], "best_bf16": best_bf16,
        "bf16_samples_per_second": best_bf16 and variants[best_bf16]["samples_per_second"]}))


if __name__ == "__main__":
    main()
