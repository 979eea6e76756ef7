#!/usr/bin/env python3
"""Turns the folder that check.py fills into the results page. Usage: results.py FOLDER >gpu.md

Read are: steps.jsonl (call, name, status, seconds, limit, said), environment.txt, gradients-NETWORK-PRECISION.json,
first-, eager- and ours-NETWORK-PRECISION.json (deterministic; the same call by call; with the fastest plans), peers.json
(torch_bench.py), kernels-NETWORK-PRECISION.tsv (kernel_trace.cpp) and ncu-NETWORK-PRECISION.csv. What is missing or damaged
is said in its place. There is no ratio to PyTorch's best where one of its strongest variants is not known.

results.py --kernels TABLE says in one line what a table of kernels holds; exit code 1 when it holds none.
"""
import csv
import json
import pathlib
import re
import sys

NETWORKS = {"neuron_inverter": "Neuron Inverter, 1600x3, batch 512", "cosmoflow": "CosmoFlow, 128x128x128x4, batch 8"}
PRECISIONS = ("bf16", "tf32")
MOST_ROWS = 40  # of a table of kernels
NCU = {"gpu__time_duration.sum": "ns", "dram__bytes.sum": "dram", "lts__t_bytes.sum": "l2"}
UNITS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
         "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def table(header, rows, left=1):
    """Markdown; the first `left` columns to the left, figures to the right."""
    def cell(value):
        return str(value).replace("|", "\\|")

    lines = ["| " + " | ".join(header) + " |",
             "|" + "|".join("---" if i < left else "---:" for i in range(len(header))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows])


def load(path, *keys):
    """The JSON of a file that holds these keys, or None."""
    try:
        data = json.loads(path.read_text())
        return data if all(data.get(key) is not None for key in keys) else None
    except (OSError, ValueError, AttributeError):
        return None


def rate(value):
    return f"{value:,.0f}" if value is not None else "-"


def steps_of(folder):
    path = folder / "steps.jsonl"
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:  # the check was ended while it wrote
            pass
    return rows


def steps_section(folder, planned):
    """Planned: (call, name) of the steps that the present call has, so that those without a line are missed."""
    rows = steps_of(folder)
    names = {status: [row["name"] for row in rows if row["status"] == status]
             for status in ("FAILED", "warned", "skipped", "short")}
    verdict = f"{len(rows)} steps, " + ", ".join(f"{len(found)} {status}" for status, found in names.items()) + "."
    if names["FAILED"]:
        verdict += " Failed: " + "; ".join(names["FAILED"]) + "."
    done = {(row["call"], row["name"]) for row in rows}
    missing = [f"{name} ({call} call)" for call, name in planned if (call, name) not in done]
    missing += [f"{row['name']}: {row['said']}" for row in rows if row["status"] in ("skipped", "short")]
    return "\n\n".join([
        "## Steps", verdict,
        "**What did not run:** " + ("; ".join(missing) + "." if missing else "nothing; all of it ran."),
        table(["call", "step", "result", "seconds", "of", "what it said"],
              [[row["call"], row["name"], row["status"], row["seconds"], row["limit"], row["said"]] for row in rows], left=6)])


def environment_section(folder):
    path = folder / "environment.txt"
    text = path.read_text().rstrip() if path.exists() else "not known: the step \"facts\" left nothing"
    return f"## Environment\n\n```\n{text}\n```"


def best_of(torch, precision):
    """(name, samples per second, whether all of its strongest variants are known) of PyTorch's fastest variant."""
    variants = torch.get("variants", {})
    known = {name: result for name, result in variants.items()
             if "error" not in result and ("tf32" if result["precision"] == "tf32" else "bf16") == precision}
    name = max(known, key=lambda each: known[each]["samples_per_second"], default=None)
    whole = all(each in variants and not variants[each].get("unfinished") for each in torch.get("strongest", {}).get(precision, []))
    return name, known[name]["samples_per_second"] if name else None, whole


def speed_rows(folder, network, torch):
    rows = []
    for precision in PRECISIONS:
        ours, fixed, eager = (load(folder / f"{kind}-{network}-{precision}.json", "samples_per_second")
                              for kind in ("ours", "first", "eager"))
        mine = ours and ours["samples_per_second"]
        name, theirs, whole = best_of(torch, precision)
        rows.append([precision, rate(mine), f"{1e3 * ours['step_seconds']:.3f}" if ours else "-",
                     rate(ours and ours.get("loader_samples_per_second")), rate(fixed and fixed["samples_per_second"]),
                     rate(eager and eager["samples_per_second"]), rate(theirs), name or "-",
                     f"{mine / theirs:.2f}" if mine and theirs and whole else "-"])
    return rows


def speed_section(folder, network):
    peers = load(folder / "peers.json", "networks") or {}
    torch = peers.get("networks", {}).get(network, {})
    parts = [f"## {NETWORKS[network]}: samples per second",
             table(["precision", "mrmf", "step (ms)", "with copies of batches", "deterministic", "and call by call",
                    "PyTorch's best", "which", "ratio"], speed_rows(folder, network, torch))]
    if not torch.get("variants"):
        return "\n\n".join(parts + ["PyTorch was not measured."])
    rows = []
    for name, result in torch["variants"].items():
        if "error" in result:
            rows.append([name, "not run: " + result["error"], "", "", ""])
        else:
            rows.append([name, rate(result["samples_per_second"]), f"{1e3 * result['step_seconds']:.3f}",
                         rate(result.get("loader_samples_per_second")),
                         f"{result.get('timed_steps', '-')} in {result.get('timed_seconds', 0):.2f} s"])
    parts += [f"PyTorch {peers.get('version')}, cuDNN {peers.get('cudnn')}, {torch.get('rows')} rows, length "
              f"{torch.get('length')}, on {peers.get('card')}:",
              table(["variant", "samples/s", "step (ms)", "with pinned loader", "timed steps"], rows)]
    parts += [f"No ratio for {precision}: not all of PyTorch's strongest variants have been measured on this card."
              for precision in PRECISIONS if not best_of(torch, precision)[2]]
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
    return "## Gradients beside the CPU's\n\nThe worst parameter tensor of each comparison, at the sizes of " \
           "docs/gpu.md.\n\n" + table(
               ["network", "precision", "distance", "allowed", "part that is there", "allowed"], rows, left=2)


def kernel_rows(path):
    """The nodes of the graph that took most time, as dicts of figures; empty where there is no table."""
    graphs = {}
    try:
        with open(path, newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                figures = {key: float(row[key]) for key in ("count", "us", "gap_us", "registers", "block", "grid", "shared")}
                graphs.setdefault(row["graph"], []).append({**figures, "name": row["name"]})
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return max(graphs.values(), key=lambda rows: sum(row["us"] * row["count"] for row in rows), default=[])


def short_name(name):
    """Without namespaces and arguments, which say nothing here."""
    name = re.sub(r"\(anonymous namespace\)::|<unnamed>::|mrmf::cuda::|mrmf::|void ", "", name)
    return name if len(name) <= 100 else name[:97] + "..."


def kernels_line(path):
    """(exit code, line)"""
    rows = kernel_rows(path)
    if not rows:
        return 1, f"{path} holds no kernel of a replayed graph"
    return 0, f"{len(rows)} nodes a step, {sum(row['us'] for row in rows) / 1e3:.3f} ms in them and " \
              f"{sum(row['gap_us'] for row in rows) / 1e3:.3f} ms between them"


def kernels_section(folder):
    parts = ["## Kernels of a replayed step"]
    for path in sorted(folder.glob("kernels-*.tsv")):
        rows = kernel_rows(path)
        title = path.stem.removeprefix("kernels-").replace("-", ", ")
        if not rows:
            parts.append(f"{title}: no table.")
            continue
        shown = sorted(rows, key=lambda row: -row["us"])[:MOST_ROWS]
        place = {id(row): number for number, row in enumerate(rows, 1)}
        parts += [f"### {title}\n\n{kernels_line(path)[1]}; the {len(shown)} longest of them:",
                  table(["kernel", "place", "us", "gap before", "registers", "threads", "blocks", "shared"],
                        [[short_name(row["name"]), place[id(row)], f"{row['us']:.1f}", f"{row['gap_us']:.1f}",
                          *(f"{row[key]:.0f}" for key in ("registers", "block", "grid", "shared"))] for row in shown])]
    return "\n\n".join(parts if len(parts) > 1 else parts + ["No table: the step \"kernels\" left none."])


def ncu_rows(path):
    """{(number, kernel): {ns, dram, l2}} of ncu's log."""
    try:
        lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    except OSError:
        return {}
    found = {}
    for row in csv.DictReader(lines):
        metric, value = NCU.get(row.get("Metric Name")), (row.get("Metric Value") or "").replace(",", "")
        if metric and re.fullmatch(r"[0-9.eE+-]+", value):
            scale = UNITS.get(row.get("Metric Unit"), 1)
            found.setdefault((row.get("ID"), row.get("Kernel Name") or "?"), {})[metric] = float(value) * scale
    return found


def ncu_section(folder):
    parts = []
    for path in sorted(folder.glob("ncu-*.csv")):
        rows = ncu_rows(path)
        if not rows:
            continue
        total = {key: sum(row.get(key, 0) for row in rows.values()) for key in ("ns", "dram", "l2")}
        longest = sorted(rows.items(), key=lambda item: -item[1].get("ns", 0))[:MOST_ROWS]
        title = path.stem.removeprefix("ncu-").replace("-", ", ")
        parts += [f"### {title}\n\n{len(rows)} kernels of one eager step: {total['ns'] / 1e6:.3f} ms, {total['dram'] / 1e9:.3f} "
                  f"GB through DRAM, {total['l2'] / 1e9:.3f} GB through L2; the {len(longest)} longest:",
                  table(["kernel", "place", "us", "DRAM (MB)", "L2 (MB)", "DRAM (TB/s)"],
                        [[short_name(name), number, f"{row.get('ns', 0) / 1e3:.1f}", f"{row.get('dram', 0) / 1e6:.1f}",
                          f"{row.get('l2', 0) / 1e6:.1f}",
                          f"{row.get('dram', 0) / row['ns'] / 1e3:.2f}" if row.get("ns") else "-"]
                         for (number, name), row in longest])]
    return "\n\n".join(["## Time and bytes by ncu", *(parts or ["not measured."])])


def page(folder, planned=()):
    folder = pathlib.Path(folder)
    parts = ["# The check on a GPU", "Written by tests/gpu/check.py; what each step is for stands in tests/gpu/steps.py.",
             environment_section(folder), steps_section(folder, planned), gradients_section(folder)]
    parts += [speed_section(folder, network) for network in NETWORKS]
    return "\n\n".join(parts + [kernels_section(folder), ncu_section(folder)]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--kernels":
        code, text = kernels_line(sys.argv[2])
        print(text)
        sys.exit(code)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(page(sys.argv[1]))
