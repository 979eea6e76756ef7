"""Prints the logs of tests/peers/bench.sh side by side: ours (first run), PyTorch, ours (second run).
The last line of each log is JSON with samples_per_second."""
import json
import pathlib
import sys


def last_json(path):
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line.strip()]
    try:
        result = json.loads(lines[-1])
        result["samples_per_second"]
        return result
    except (IndexError, ValueError, KeyError, TypeError):
        sys.exit(f"bench: the last line of {path} is no JSON with samples_per_second")


first, torch, second = (last_json(path) for path in sys.argv[1:4])
ours = (first["samples_per_second"] + second["samples_per_second"]) / 2
best = torch["samples_per_second"]
spread = abs(first["samples_per_second"] - second["samples_per_second"]) / ours

print(f"machine: {torch['cpu']}, {torch['threads']} threads; {torch['network']}, length {torch['length']}, batch {torch['batch']}, "
      "float32, Adam")
print(f"{'':44}{'samples/s':>10}{'ours is faster by':>20}")
for name, result in torch["variants"].items():
    label = f"PyTorch {torch['version']} {name}"
    if "error" in result:
        print(f"{label:44}not run: {result['error']}")
    else:
        rate = result["samples_per_second"]
        print(f"{label:44}{rate:10.2f}{ours / rate:9.2f} x{'   (best)' if name == torch['best'] else ''}")
print(f"{'mrmf, mean of two runs':44}{ours:10.2f}    runs differ by {100 * spread:.1f} %")
print(f"ratio to PyTorch's best: {ours / best:.2f}")
print(json.dumps({"ours": ours, "torch": best, "torch_version": torch["version"], "torch_best": torch["best"],
                  "ratio": round(ours / best, 3), "spread": round(spread, 4)}))
