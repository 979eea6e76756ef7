#!/usr/bin/env python3
"""Training throughput of PyTorch at its fastest settings, the peer of `mrmf bench training --device cuda`.

    python3 tests/gpu/torch_bench.py --network cosmoflow --json torch.json [--limit 150]
    python3 tests/gpu/torch_bench.py --device cpu --rows 4 --length 256     # does the script itself work?

A step is zero_grad, forward, mean squared error, backward, Adam (fused, capturable). The batch lies on the device; a
variant's "loader" figure also brings a fresh batch from pinned memory every step, overlapped. Every variant runs in a
process of its own, strongest candidates first, so that one that fails or hangs does not lose the others; what the time
limit leaves no room for says so ("unfinished"). Median of at least 50 steps, and on a GPU of at least a second's, after
20 that are not timed, by CUDA events. Each result says how many steps were timed and how long the variant took in all.
"""
import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time

import torch

import torch_networks

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
STRONGEST = {
    "bf16": ["bf16, channels last, graph", "autocast, channels last, graph", "bf16, channels last, compile+graph",
             "autocast, channels last, compile"],
    "tf32": ["tf32, channels last, graph", "tf32, channels last, compile+graph"],
}
MOST_STEPS = 2000


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


def measure(options, name):
    """The result of one variant, in its own process."""
    precision, channels_last, mode = VARIANTS[name]
    on_gpu = options.device == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    training = torch_networks.Training(options, precision, channels_last,
                                       None if mode in ("eager", "graph") else mode)
    step = training.captured(options.warmup) if is_captured(mode) else training.step
    time_steps(step, options.warmup, on_gpu)
    times = time_steps(step, options.steps, on_gpu)
    if on_gpu:  # a second's worth, by which a device's clocks are up
        times += time_steps(step, min(MOST_STEPS, int(1 / statistics.median(times))), on_gpu)
    seconds = statistics.median(times)
    result = {"precision": precision, "step_seconds": seconds, "samples_per_second": options.rows / seconds,
              "timed_steps": len(times), "timed_seconds": sum(times)}
    if on_gpu and mode != "max-autotune":  # that mode's own graphs copy their inputs already
        loader = torch_networks.PinnedLoader(training.x)

        def loaded_step():
            loader.load()
            step()

        time_steps(loaded_step, options.warmup, on_gpu)
        result["loader_samples_per_second"] = options.rows / statistics.median(
            time_steps(loaded_step, options.steps, on_gpu))
    if on_gpu:
        result["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return result


def first_line(error):
    return next((line for line in str(error).splitlines() if line.strip()), "") or type(error).__name__


def child(options, name, sender):
    os.setsid()  # so that the compiler's helpers end with it
    try:
        sender.send(measure(options, name))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {first_line(error)}"[:300]})


def isolated(options, name, limit):
    """measure() in a forked process that ends within limit seconds. The parent never touches the GPU, so it may fork."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(options, name, sender))
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


def measure_all(options, names):
    deadline = time.monotonic() + options.limit
    results = {}
    for name in names:
        left = deadline - time.monotonic()
        if options.device == "cpu" and is_captured(VARIANTS[name][2]):
            results[name] = {"error": "CUDA graphs need a GPU"}
        else:
            share = min(left, options.limit / 2)  # no variant eats the others' time
            begin = time.monotonic()
            results[name] = (isolated(options, name, share) if left > 0
                             else {"error": "no time left", "unfinished": True})
            results[name]["seconds"] = time.monotonic() - begin
        print(f"  {name:36} {describe(results[name])}", flush=True)
    return results


def describe(result):
    if "error" in result:
        return f"not run: {result['error']}, {result.get('seconds', 0):.0f} s"
    loader = result.get("loader_samples_per_second")
    return (f"{result['samples_per_second']:12.1f} samples/s, step {1e3 * result['step_seconds']:.3f} ms, "
            f"{result['timed_steps']} steps in {result['timed_seconds']:.1f} s, in all {result['seconds']:.0f} s"
            + (f", with the loader {loader:.1f}" if loader else ""))


def best_of(results, precisions):
    names = [n for n, r in results.items() if "error" not in r and r["precision"] in precisions]
    return max(names, key=lambda n: results[n]["samples_per_second"], default=None)


def unfinished(results, precision):
    """The strongest variants of a precision that had no time, or too little."""
    return [name for name in STRONGEST[precision] if results.get(name, {"unfinished": True}).get("unfinished")]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=sorted(torch_networks.ROWS), default="neuron_inverter")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rows", type=int, help="rows of a batch; default 512, and 8 for cosmoflow")
    parser.add_argument("--length", type=int, help="positions, or the cube's edge; default 1600, and 128 for cosmoflow")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--limit", type=float, default=150, help="seconds for all variants together")
    parser.add_argument("--variants", help="names, separated by semicolons; default: all")
    parser.add_argument("--json", help="file for the result")
    options = parser.parse_args(arguments)
    options.rows = options.rows or torch_networks.ROWS[options.network]
    options.length = options.length or torch_networks.LENGTH[options.network]
    return options


def main(arguments=None):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("torch_bench: told to end"))
    names = [name.strip() for name in options.variants.split(";")] if options.variants else list(VARIANTS)
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        sys.exit(f"torch_bench: there is no variant '{unknown[0]}'; there are: {'; '.join(VARIANTS)}")
    print(f"PyTorch {torch.__version__}, {options.network}, length {options.length}, {options.rows} rows, "
          f"{options.device}, median of {options.steps} steps", flush=True)
    results = measure_all(options, names)
    best = best_of(results, {"bf16", "autocast", "tf32"})
    text = json.dumps({
        "peer": "PyTorch", "version": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "network": options.network, "device": options.device, "rows": options.rows, "length": options.length,
        "variants": results, "best": best,
        "best_of": {"bf16": best_of(results, {"bf16", "autocast"}), "tf32": best_of(results, {"tf32"})},
        "unfinished": {precision: unfinished(results, precision) for precision in STRONGEST},
        "samples_per_second": results[best]["samples_per_second"] if best else None})
    print(text)
    if options.json:
        with open(options.json, "w") as file:
            file.write(text + "\n")
    return 0 if best else 1


if __name__ == "__main__":
    sys.exit(main())
