#!/usr/bin/env python3
"""Turns the folder that check.sh fills into the results page. Usage: results.py FOLDER >gpu.md

Read are: steps.tsv (name, status, seconds, detail), environment.txt, ours-NETWORK-PRECISION-N.json (N: 1 before
PyTorch, 2 after), torch-NETWORK.json, layers-NETWORK-PRECISION.json. What is missing or damaged is said in its place.
"""
import json
import pathlib
import statistics
import sys

NETWORKS = {"neuron_inverter": "Neuron Inverter, 1600x3, batch 512", "cosmoflow": "CosmoFlow, 128x128x128x4, batch 8"}
PRECISIONS = ("bf16", "tf32")


def table(header, rows, left=1):
    """Markdown; the first `left` columns to the left, figures to the right."""
    lines = ["| " + " | ".join(header) + " |",
             "|" + "|".join("---" if i < left else "---:" for i in range(len(header))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def load(path, *keys):
    """The JSON of a file that holds these keys, or None."""
    try:
        data = json.loads(path.read_text())
        return data if all(data.get(key) is not None for key in keys) else None
    except (OSError, ValueError, AttributeError):
        return None


def rate(value):
    return f"{value:,.0f}" if value is not None else "-"


def steps_section(folder):
    path = folder / "steps.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    failed = [row[0] for row in rows if row[1] == "FAILED"]
    skipped = [row[0] for row in rows if row[1] == "skipped"]
    verdict = f"{len(rows)} steps, {len(failed)} failed, {len(skipped)} skipped."
    verdict += " Failed: " + "; ".join(failed) + "." if failed else ""
    return f"## Steps\n\n{verdict}\n\n" + table(["step", "result", "seconds", "what it said"],
                                               [[a, b, c, d.replace("|", "\\|")] for a, b, c, d in rows], left=2)


def environment_section(folder):
    path = folder / "environment.txt"
    text = path.read_text().rstrip() if path.exists() else "not known: the step environment left nothing"
    return f"## Environment\n\n```\n{text}\n```"


def ours(folder, network, precision):
    """(mean samples per second, spread of the runs, number of runs), or None."""
    found = [load(path, "samples_per_second") for path in sorted(folder.glob(f"ours-{network}-{precision}-*.json"))]
    rates = [data["samples_per_second"] for data in found if data]
    if not rates:
        return None
    mean = statistics.mean(rates)
    return mean, (max(rates) - min(rates)) / mean, len(rates)


def speed_rows(folder, network, torch):
    rows = []
    for precision in PRECISIONS:
        mine = ours(folder, network, precision)
        best = (torch or {}).get("best_of", {}).get(precision)
        theirs = torch["variants"][best]["samples_per_second"] if best else None
        layers = load(folder / f"layers-{network}-{precision}.json", "step_us", "step_roofline_us")
        rows.append([precision, rate(mine and mine[0]), f"{100 * mine[1]:.1f} % of {mine[2]}" if mine else "-",
                     rate(theirs), best or "-", f"{mine[0] / theirs:.2f}" if mine and theirs else "-",
                     f"{100 * layers['step_roofline_us'] / layers['step_us']:.0f} %" if layers else "-"])
    return rows


def speed_section(folder, network):
    torch = load(folder / f"torch-{network}.json", "variants", "best_of")
    parts = [f"## {NETWORKS[network]}: samples per second",
             table(["precision", "mrmf", "spread of runs", "PyTorch's best", "which", "ratio", "of roofline"],
                   speed_rows(folder, network, torch))]
    if not torch:
        return "\n\n".join(parts + ["PyTorch was not measured."])
    rows = []
    for name, result in torch["variants"].items():
        if "error" in result:
            rows.append([name, "not run: " + result["error"].replace("|", "\\|"), "", "", ""])
            continue
        mine = ours(folder, network, "tf32" if result["precision"] == "tf32" else "bf16")
        rows.append([name, rate(result["samples_per_second"]), f"{1e3 * result['step_seconds']:.3f}",
                     rate(result.get("loader_samples_per_second")),
                     f"{mine[0] / result['samples_per_second']:.2f}" if mine else "-"])
    version = f"PyTorch {torch.get('version')}, cuDNN {torch.get('cudnn')}, {torch.get('rows')} rows, " \
              f"length {torch.get('length')}, on {torch.get('device')}:"
    return "\n\n".join(parts + [version, table(["variant", "samples/s", "step (ms)", "with pinned loader",
                                                "mrmf is faster by"], rows)])


def layers_section(folder, network, precision):
    data = load(folder / f"layers-{network}-{precision}.json", "layers")
    title = f"### {network}, {precision}: achieved part of the roofline"
    if not data:
        return f"{title}\n\nnot measured."
    rows = []
    for layer in data["layers"]:
        spent = layer["forward_us"] + layer["backward_us"]
        floor = layer.get("roofline_us")
        rows.append([layer["name"], f"{layer['forward_us']:.1f}", f"{layer['backward_us']:.1f}",
                     f"{floor:.1f}" if floor else "-", f"{100 * floor / spent:.0f} %" if floor and spent else "-"])
    if data.get("step_us") and data.get("step_roofline_us"):
        rows.append(["whole step", f"{data['step_us']:.1f} in all", "", f"{data['step_roofline_us']:.1f}",
                     f"{100 * data['step_roofline_us'] / data['step_us']:.0f} %"])
    return f"{title}\n\n" + table(["layer", "forward (us)", "backward (us)", "roofline (us)", "of roofline"], rows)


def page(folder):
    folder = pathlib.Path(folder)
    parts = ["# The check on a GPU",
             "Written by `make gpu-check` (tests/gpu/check.sh); every figure is of this one call.",
             environment_section(folder), steps_section(folder)]
    parts += [speed_section(folder, network) for network in NETWORKS]
    parts.append("## Layers")
    parts += [layers_section(folder, network, "bf16") for network in NETWORKS]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(page(sys.argv[1]))
