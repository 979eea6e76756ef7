#!/usr/bin/env python3
"""Turns the folder that check.sh fills into the results page. Usage: results.py FOLDER >gpu.md

Read are: steps-*.tsv (name, status, seconds, detail), environment.txt, gradients-NETWORK-PRECISION.json,
ours-NETWORK-PRECISION-N.json (N: 1 before PyTorch, 2 after), torch-NETWORK.json, layers-NETWORK-PRECISION.json. What is
missing or damaged is said in its place. There is no ratio to PyTorch's best where one of its strongest variants had no
time to end.

results.py --torch FILE says in one line what was measured of PyTorch; exit code 75 when time was short for that.
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


def took(result):
    return f"{result['seconds']:.0f}" if "seconds" in result else "-"


def rate(value):
    return f"{value:,.0f}" if value is not None else "-"


def steps_section(folder):
    rows = [line.split("\t") for path in sorted(folder.glob("steps-*.tsv"), reverse=True)  # tests before speed
            for line in path.read_text().splitlines()]
    failed = [row[0] for row in rows if row[1] == "FAILED"]
    skipped = [row[0] for row in rows if row[1] == "skipped"]
    short = [row[0] for row in rows if row[1] == "short"]
    verdict = f"{len(rows)} steps, {len(failed)} failed, {len(skipped)} skipped, {len(short)} short of time."
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
        known = theirs and not torch.get("unfinished", {}).get(precision)
        rows.append([precision, rate(mine and mine[0]), f"{100 * mine[1]:.1f} % of {mine[2]}" if mine else "-",
                     rate(theirs), best or "-", f"{mine[0] / theirs:.2f}" if mine and known else "-",
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
            rows.append([name, "not run: " + result["error"].replace("|", "\\|"), "", "", "", took(result), ""])
            continue
        mine = ours(folder, network, "tf32" if result["precision"] == "tf32" else "bf16")
        rows.append([name, rate(result["samples_per_second"]), f"{1e3 * result['step_seconds']:.3f}",
                     rate(result.get("loader_samples_per_second")),
                     f"{result.get('timed_steps', '-')} in {result.get('timed_seconds', 0):.2f} s", took(result),
                     f"{mine[0] / result['samples_per_second']:.2f}" if mine else "-"])
    version = f"PyTorch {torch.get('version')}, cuDNN {torch.get('cudnn')}, {torch.get('rows')} rows, " \
              f"length {torch.get('length')}, on {torch.get('device')}:"
    parts += [version, table(["variant", "samples/s", "step (ms)", "with pinned loader", "timed steps", "took (s)",
                              "mrmf is faster by"], rows)]
    parts += [f"No ratio for {precision}: no time was left for {'; '.join(names)}. "
              "`PART=speed gpu/check.sh` gives PyTorch all the time of a call."
              for precision, names in torch.get("unfinished", {}).items() if names]
    return "\n\n".join(parts)


def gradients_section(folder):
    """The worst tensor of each comparison."""
    rows = []
    for network in NETWORKS:
        for precision in ("fp32", *PRECISIONS):
            data = load(folder / f"gradients-{network}-{precision}.json", "gradients", "distance_tolerance")
            if not data:
                rows.append([network, precision, "not compared", "", "", ""])
                continue
            far = max(data["gradients"], key=lambda g: g["distance"])
            off = max(data["gradients"], key=lambda g: abs(g["along"] - 1))
            rows.append([network, precision, f"{far['distance']:.2g} ({far['name']})", f"{data['distance_tolerance']:g}",
                         f"{off['along']:.4f} ({off['name']})", f"1 +- {data['along_tolerance']:g}"])
    return "## Gradients beside the CPU's, at full size\n\nThe worst parameter tensor of three steps each.\n\n" + table(
        ["network", "precision", "distance", "allowed", "part that is there", "allowed"], rows, left=2)


def torch_line(path):
    """(exit code, line)"""
    data = load(pathlib.Path(path), "variants", "unfinished")
    if not data:
        return 1, f"{path} holds no results"
    measured = [result for result in data["variants"].values() if "error" not in result]
    line = f"{len(measured)} of {len(data['variants'])} variants measured in " \
           f"{sum(result.get('seconds', 0) for result in data['variants'].values()):.0f} s"
    short = [name for names in data["unfinished"].values() for name in names]
    return (75, f"{line}; no time for {'; '.join(short)}") if short else (0, line)


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
             environment_section(folder), steps_section(folder), gradients_section(folder)]
    parts += [speed_section(folder, network) for network in NETWORKS]
    parts.append("## Layers")
    parts += [layers_section(folder, network, "bf16") for network in NETWORKS]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--torch":
        code, text = torch_line(sys.argv[2])
        print(text)
        sys.exit(code)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(page(sys.argv[1]))
