#!/usr/bin/env python3
"""Training throughput of PyTorch at its fastest settings, the peer of `mrmf bench training --device cuda`.

    python3 tests/gpu/torch_bench.py --set best --card "NVIDIA H200" --json peers.json [--limit 40]
    python3 tests/gpu/torch_bench.py --device cpu --networks cosmoflow --rows 4 --length 256  # does the script itself work?

A step is zero_grad, forward, mean squared error, backward, Adam (fused, capturable). The batch lies on the device; a
variant's "loader" figure also brings a fresh batch from pinned memory every step, overlapped. Every variant runs in a
process of its own, strongest candidates first, so that one that fails or hangs does not lose the others; what the time
limit leaves no room for says so ("unfinished"). Median of at least 50 steps, and on a GPU of at least a second's, after
20 that are not timed, by CUDA events.

What has been measured on a card is measured once: --json has the form of tests/gpu/peers/CARD.json, and variants that
stand in that file, or in --json from an earlier call, are taken from there. Exit code 77 where there is no PyTorch.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import re
import signal
import statistics
import sys
import time

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
ROWS = {"neuron_inverter": 512, "cosmoflow": 8}
LENGTH = {"neuron_inverter": 1600, "cosmoflow": 128}
torch = torch_networks = None  # imported when something is to be measured: that alone takes seconds

# name: (precision, channels last, mode). tf32: float32 weights and data, TF32 tensor cores. autocast: float32 weights,
# bfloat16 arithmetic. bf16: bfloat16 model, float32 master weights.
VARIANTS = {
    "bf16, channels last, graph": ("bf16", True, "graph"),
    "autocast, channels last, graph": ("autocast", True, "graph"),
    "tf32, channels last, graph": ("tf32", True, "graph"),
    "bf16, channels last, compile+graph": ("bf16", True, "max-autotune-no-cudagraphs"),
    "tf32, channels last, compile+graph": ("tf32", True, "max-autotune-no-cudagraphs"),
    "autocast, channels last, compile": ("autocast", True, "max-autotune"),
    "bf16, channels first, graph": ("bf16", False, "graph"),
    "tf32, channels first, graph": ("tf32", False, "graph"),
    "autocast, channels first, graph": ("autocast", False, "graph"),
    "bf16, channels last, eager": ("bf16", True, "eager"),
    "autocast, channels last, eager": ("autocast", True, "eager"),
    "tf32, channels last, eager": ("tf32", True, "eager"),
    "bf16, channels last, compile": ("bf16", True, "max-autotune"),
    "tf32, channels last, compile": ("tf32", True, "max-autotune"),
    "tf32, channels first, eager": ("tf32", False, "eager"),
}
# Until these are measured, or have failed by themselves, the fastest of a precision is not known.
SETS = {
    "best": ["bf16, channels last, graph", "autocast, channels last, graph", "tf32, channels last, graph"],
    "compiled": ["bf16, channels last, compile+graph", "tf32, channels last, compile+graph",
                 "autocast, channels last, compile"],
    "all": list(VARIANTS),
}
STRONGEST = {
    "bf16": ["bf16, channels last, graph", "autocast, channels last, graph", "bf16, channels last, compile+graph",
             "autocast, channels last, compile"],
    "tf32": ["tf32, channels last, graph", "tf32, channels last, compile+graph"],
}
MOST_STEPS = 2000


def sized(options, network):
    """The options of one network, in its own size unless another was asked for."""
    return argparse.Namespace(**{**vars(options), "network": network, "rows": options.rows or ROWS[network],
                                 "length": options.length or LENGTH[network]})


def is_captured(mode):
    return mode in ("graph", "max-autotune-no-cudagraphs")


def time_steps(step, count, on_gpu):
    """Seconds of each step."""
    if not on_gpu:
        seconds = []
        for _ in range(count):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        return seconds
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [1e-3 * a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def measure(options, network, name):
    """The result of one variant, in its own process."""
    precision, channels_last, mode = VARIANTS[name]
    on_gpu = options.device == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    training = torch_networks.Training(sized(options, network), precision, channels_last,
                                       None if mode in ("eager", "graph") else mode)
    step = training.captured(options.warmup) if is_captured(mode) else training.step
    time_steps(step, options.warmup, on_gpu)
    times = time_steps(step, options.steps, on_gpu)
    if on_gpu:  # a second's worth, by which a device's clocks are up
        times += time_steps(step, min(MOST_STEPS, int(1 / statistics.median(times))), on_gpu)
    seconds = statistics.median(times)
    result = {"precision": precision, "cudnn": torch.backends.cudnn.version(), "step_seconds": seconds, "samples_per_second": sized(options, network).rows / seconds,
              "timed_steps": len(times), "timed_seconds": sum(times)}
    if on_gpu and mode != "max-autotune":  # that mode's own graphs copy their inputs already
        loader = torch_networks.PinnedLoader(training.x)

        def loaded_step():
            loader.load()
            step()

        time_steps(loaded_step, options.warmup, on_gpu)
        result["loader_samples_per_second"] = sized(options, network).rows / statistics.median(
            time_steps(loaded_step, options.steps, on_gpu))
    if on_gpu:
        result["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return result


def first_line(error):
    return next((line for line in str(error).splitlines() if line.strip()), "") or type(error).__name__


def child(options, network, name, sender):
    os.setsid()  # so that the compiler's helpers end with it
    try:
        if torch is None:
            import_torch()
        sender.send(measure(options, network, name))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {first_line(error)}"[:300]})


def isolated(options, network, name, limit):
    """measure() in a process that ends within limit seconds: a forked one, which need not import PyTorch. That fails where
    this process has touched the GPU, as some of PyTorch's questions do (the version of cuDNN is one of them); then a new one."""
    result = in_process("fork", options, network, name, limit)
    if "forked subprocess" not in result.get("error", ""):
        return result
    return in_process("spawn", options, network, name, limit)


def in_process(start, options, network, name, limit):
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context(start).Process(target=child, args=(options, network, name, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else {"error": f"not done after {limit:.0f} s", "unfinished": True}
    except EOFError:
        process.join()
        return {"error": f"its process ended with code {process.exitcode}"}
    finally:  # also when this program is told to end
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        process.join()


def known_results(options):
    """What files in the form of tests/gpu/peers have of this card: those that the repository keeps, and --json."""
    known = {"card": options.card, "networks": {}}
    kept = PEERS / (re.sub(r"[^A-Za-z0-9]+", "-", options.card).strip("-") + ".json")
    for path in [kept] + ([pathlib.Path(options.json)] if options.json else []):
        try:
            data = json.loads(path.read_text())
            if data["card"] == options.card:
                networks = {**known["networks"], **data["networks"]}
                known = {**data, "networks": networks}
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return known


def still_to_measure(options, known, names):
    """(network, name) of variants without a figure, strongest first in both networks."""
    def has(network, name):
        found = known["networks"].get(network, {})
        same = (found.get("rows"), found.get("length")) == (sized(options, network).rows, sized(options, network).length)
        return same and name in found["variants"] and not found["variants"][name].get("unfinished")

    return [(network, name) for name in names for network in options.networks if not has(network, name)]


def write(options, data):
    if options.json:
        partial = pathlib.Path(options.json + ".partial")
        partial.write_text(json.dumps(data, indent=1) + "\n")
        partial.replace(options.json)


def measure_all(options, data, wanted):
    """Adds the results to data, and writes them after each."""
    deadline = time.monotonic() + options.limit - options.ending
    for i, (network, name) in enumerate(wanted):
        left = deadline - time.monotonic()
        if options.device == "cpu" and is_captured(VARIANTS[name][2]):
            result = {"error": "CUDA graphs need a GPU"}
        else:
            share = min(left, max(left / (len(wanted) - i), options.limit / 4))  # no variant eats the others' time
            begin = time.monotonic()
            result = isolated(options, network, name, share) if left > 0 else {"error": "no time left", "unfinished": True}
            result["seconds"] = time.monotonic() - begin
            data.update({key: result.pop(key) for key in ("cudnn",) if key in result})
        print(f"  {network:16} {name:36} {describe(result)}", flush=True)
        size = sized(options, network)
        of = data["networks"].setdefault(network, {})
        if (of.get("rows"), of.get("length")) != (size.rows, size.length):
            of.clear()
        of.update(rows=size.rows, length=size.length, strongest=STRONGEST)
        of.setdefault("variants", {})[name] = result
        write(options, data)


def describe(result):
    if "error" in result:
        return f"not run: {result['error']}, {result.get('seconds', 0):.0f} s"
    loader = result.get("loader_samples_per_second")
    return (f"{result['samples_per_second']:12.1f} samples/s, step {1e3 * result['step_seconds']:.3f} ms, "
            f"{result['timed_steps']} steps in {result['timed_seconds']:.1f} s, in all {result['seconds']:.0f} s"
            + (f", with the loader {loader:.1f}" if loader else ""))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=lambda text: text.split(","), default=sorted(ROWS), help="separated by commas")
    parser.add_argument("--set", choices=sorted(SETS), default="all", help="which variants")
    parser.add_argument("--variants", help="names, separated by semicolons, in place of a set")
    parser.add_argument("--card", default="this machine", help="its name, as tests/gpu/peers has it")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rows", type=int, help="rows of a batch; default 512, and 8 for cosmoflow")
    parser.add_argument("--length", type=int, help="positions, or the cube's edge; default 1600, and 128 for cosmoflow")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--limit", type=float, default=300, help="seconds for all variants together")
    parser.add_argument("--ending", type=float, default=2, help="seconds of these to keep for the end")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args(arguments)
    for network in options.networks:
        if network not in ROWS:
            parser.error(f"there is no network '{network}'; there are: {', '.join(ROWS)}")
    return options


def import_torch():
    """False where there is none."""
    global torch, torch_networks
    try:
        import torch as found
        import torch_networks as networks
    except ImportError:
        return False
    torch, torch_networks = found, networks
    return True


def summary(data, names, options):
    """(exit code, line): 75 when time was short for some variants."""
    results = [(network, name, data["networks"].get(network, {}).get("variants", {}).get(name, {"unfinished": True}))
               for network in options.networks for name in names]
    short = [f"{network} {name}" for network, name, result in results if result.get("unfinished")]
    measured = [result for _, _, result in results if "samples_per_second" in result]
    line = f"{len(measured)} of {len(results)} variants measured on {options.card}"
    if short:
        return 75, f"{line}; no time for {'; '.join(short)}"
    return (0 if measured else 1), line


def main(arguments=None):
    begin = time.monotonic()
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("torch_bench: told to end"))
    names = [name.strip() for name in options.variants.split(";")] if options.variants else SETS[options.set]
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        sys.exit(f"torch_bench: there is no variant '{unknown[0]}'; there are: {'; '.join(VARIANTS)}")
    data = known_results(options)
    wanted = still_to_measure(options, data, names)
    write(options, data)
    if not wanted:
        print(f"nothing is measured: {options.card} stands in {PEERS.name}, or was measured in an earlier call")
        return 0
    if not import_torch():
        print(f"{sys.executable} has no PyTorch; TORCH_PYTHON names another interpreter")
        return 77
    data.update(version=torch.__version__)
    print(f"PyTorch {torch.__version__}, {options.device}, median of {options.steps} steps", flush=True)
    options.ending += time.monotonic() - begin
    measure_all(options, data, wanted)
    code, line = summary(data, names, options)
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
