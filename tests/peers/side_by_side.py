"""Prints what tests/peers/bench.sh measured as one table, a row a network: its logs are NAME.first, .torch, .jax and .bf16
(perhaps), .second and .layers. The last line of each but the layers' is JSON with samples_per_second; so is the last line here."""
import json
import pathlib
import re
import sys


def last_json(path):
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line.strip()]
    try:
        result = json.loads(lines[-1])
        result["samples_per_second"]
        return result
    except (IndexError, ValueError, KeyError, TypeError):
        sys.exit(f"bench: the last line of {path} is no JSON with samples_per_second")


def row(name):
    first, torch, second = (last_json(f"{name}.{end}") for end in ("first", "torch", "second"))
    jax, bf16 = (last_json(f"{name}.{end}") if pathlib.Path(f"{name}.{end}").exists() else {} for end in ("jax", "bf16"))
    layers = re.search(r"whole step / oneDNN's sum +([0-9.]+)", pathlib.Path(f"{name}.layers").read_text())
    rates = [first["samples_per_second"], second["samples_per_second"]]
    ours, best = sum(rates) / 2, torch["samples_per_second"]  # None: VARIANTS were of bf16 alone
    share = (first["gflops"] + second["gflops"]) / (first["peak_gflops"] + second["peak_gflops"])
    return {"network": torch["network"], "sample": torch["sample"], "batch": torch["batch"], "ours": ours,
            "spread": round(abs(rates[0] - rates[1]) / ours, 4), "torch": best, "torch_best": torch["best"],
            "bf16": bf16.get("samples_per_second"), "torch_bf16": torch["bf16_samples_per_second"],
            "jax": jax.get("samples_per_second"),
            "ratio": best and round(ours / best, 3), "share_of_peak": round(share, 3),
            "step_over_onednn": float(layers[1]) if layers else None,
            "torch_version": torch["version"], "jax_version": jax.get("version")}


def text(number):
    return "-" if number is None else f"{number:.4g}" if number < 1000 else f"{number:,.0f}"


rows = [row(name) for name in sys.argv[1:]]
machine = last_json(f"{sys.argv[1]}.torch")
jax = f", JAX {rows[0]['jax_version']}" if rows[0]["jax_version"] else ""
print(f"{machine['cpu']}, {machine['threads']} threads; PyTorch {machine['version']} in its best way{jax}; samples per second of "
      "training in float32 with Adam, unless bf16 is said")
print("mrmf: mean of two runs, before and after the others; of peak: its products, as share of what multiply-adds in "
      "registers reach")
print("| network | batch | PyTorch | JAX | mrmf | runs differ by | mrmf / PyTorch | of peak | step / oneDNN | PyTorch bf16 | mrmf bf16 |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
for r in rows:
    print(f"| {r['network']} {r['sample']} | {r['batch']} | {text(r['torch'])} ({r['torch_best'] or '-'}) "
          f"| {text(r['jax'])} | {text(r['ours'])} | {100 * r['spread']:.1f} % | **{text(r['ratio'])}** "
          f"| {100 * r['share_of_peak']:.0f} % | {text(r['step_over_onednn'])} "
          f"| {text(r['torch_bf16'])} | {text(r['bf16'])} |")
print(json.dumps(rows))
