"""Runs exported cells in NEURON and compares: compare.py EXPORT.json [--store FILE]

Agreement asked for: the same number of spikes at each probe, spike times within 0.1 ms, and potentials within 0.5 mV
outside a window of 1 ms on both sides of every spike of either program. --store writes NEURON's traces for the unit
test. Mechanisms must have been compiled (nrnivmodl) in the working directory; run.sh does all of it.
"""

import json
import sys
import time

import numpy as np
from neuron import h
import neuron

THRESHOLD = -10.0  # mV, upward crossings are spikes
TIME_TOLERANCE = 0.1  # ms
VOLTAGE_TOLERANCE = 0.5  # mV
WINDOW = 1.0  # ms
PROBES = ("soma", "axon", "dendrite")


def insert(section, region, g, constants):
    """Channels of one section; names on the right are the export's."""
    common = {"mrNaT": "sodium", "mrKT": "k_tst", "mrNap": "nap", "mrKv3": "skv3", "mrIm": "im"}
    calcium = {"mrCaL": "ca_lva", "mrCaH": "ca", "mrKP": "k_pst", "mrSK": "sk"}
    dendrite = {"mrIh": "ih", "mrKStoch": "stoch_kv", "mrKd": "kd_shu"}
    wanted = dict(common)
    if region != "dendrite":
        wanted.update(calcium)
        section.insert("mrCaPool")
    if region == "dendrite":
        wanted.update(dendrite)
    if region == "soma":
        wanted.update({"mrKStoch": "stoch_kv", "mrKd": "kd_shu"})
    section.insert("pas")
    for mechanism in wanted:
        section.insert(mechanism)
    for segment in section:
        segment.pas.g, segment.pas.e = g["pas"], g["leak_reversal"]
        for mechanism, name in wanted.items():
            getattr(segment, mechanism).gbar = g[name]
        segment.mrNaT.shift = 0 if region == "axon" else 6
        if region == "dendrite":
            distance = constants["distance"] + segment.x * section.L
            segment.mrIh.gbar *= -0.8696 + 2.087 * np.exp(0.003 * distance)
            segment.mrIh.e_rev = -45
        else:
            segment.mrCaPool.gamma, segment.mrCaPool.decay = g["calcium_gamma"], g["calcium_decay"]
            segment.cao = 2
        if region != "axon":
            segment.mrKd.e_rev = -100
        segment.ena = 50
        segment.ek = -77 if region == "dendrite" else -85


def build(sample):
    sections = []
    for description in sample["sections"]:
        section = h.Section(name=description["name"])
        section.L, section.nseg = description["length"], len(description["diameters"])
        section.cm, section.Ra = 1, 100
        for segment, diameter in zip(section, description["diameters"]):
            segment.diam = diameter
        if description["parent"] >= 0:
            parent = sections[description["parent"]]
            section.connect(parent(0.5) if description["parent"] == 0 else parent(1), 0)
        insert(section, description["region"], sample["regions"][description["region"]], description)
        sections.append(section)
    return sections


def run(sample, export, dt):
    """Potentials (step, probe) at 0, dt, ...; and the seconds that the run took."""
    sections = build(sample)
    clamp = h.IClamp(sections[0](0.5))
    clamp.delay, clamp.dur = 0, 1e9
    values = h.Vector(export["stimulus"])
    times = h.Vector(np.arange(len(export["stimulus"])) * export["stimulus_step"])
    values.play(clamp._ref_amp, times, True)
    recordings = []
    for section, index in sample["probes"]:
        segment = list(sections[section])[index]
        recordings.append(h.Vector().record(segment._ref_v))
    h.celsius, h.dt, h.secondorder = 34, dt, 0
    steps = round(export["duration"] / dt)
    start = time.perf_counter()
    h.finitialize(-65)
    for _ in range(steps - 1):
        h.fadvance()
    seconds = time.perf_counter() - start
    return np.stack([np.array(r)[:steps] for r in recordings], axis=1), seconds


def spikes(v, dt):
    up = np.flatnonzero((v[:-1] < THRESHOLD) & (v[1:] >= THRESHOLD))
    return (up + (THRESHOLD - v[up]) / (v[up + 1] - v[up])) * dt


def compare(ours, theirs, dt):
    """Per probe: spikes of both, worst spike time difference, worst potential difference away from spikes."""
    rows = []
    times = np.arange(len(ours)) * dt
    for p in range(3):
        a, b = spikes(ours[:, p], dt), spikes(theirs[:, p], dt)
        shift = np.max(np.abs(a - b)) if len(a) == len(b) and len(a) else 0.0
        away = np.ones(len(times), bool)
        for t in np.concatenate([a, b]):
            away &= np.abs(times - t) > WINDOW
        difference = np.abs(ours[:, p] - theirs[:, p])
        rows.append((len(a), len(b), shift, difference[away].max(), difference.max()))
    return rows


def store(path, runs, dt):
    """NEURON's traces every 0.125 ms, in hundredths of a millivolt, and its spike times."""
    every = round(0.125 / dt)
    with open(path, "w") as out:
        print(f"NEURON {neuron.__version__}, dt {dt} ms: cell, sample, then per probe spike times (ms) and the", file=out)
        print("potential every 0.125 ms (hundredths of a millivolt: the first, then differences)", file=out)
        for sample, trace in runs:
            print("sample", sample["cell"], sample["sample"], file=out)
            for p in range(3):
                print("spikes", *(f"{t:.4f}" for t in spikes(trace[:, p], dt)), file=out)
                values = np.rint(trace[::every, p] * 100).astype(int)
                print("voltage", *np.diff(values, prepend=0), file=out)


def main():
    with open(sys.argv[1]) as file:
        export = json.load(file)
    dt = export["dt"]
    runs, failed = [], False
    print(f"NEURON {neuron.__version__}, both at {dt} ms; spikes cross {THRESHOLD} mV; away = more than {WINDOW} ms from a spike")
    print(f"{'cell':>10} {'sample':>6} {'probe':>9} {'spikes':>7} {'theirs':>7} {'time, ms':>9} {'away, mV':>9} {'max, mV':>9}")
    for sample in export["samples"]:
        theirs, _ = run(sample, export, dt)
        ours = np.array(sample["trace"]).reshape(-1, 3)
        runs.append((sample, theirs))
        for probe, (mine, their, shift, away, worst) in zip(PROBES, compare(ours, theirs, dt)):
            bad = mine != their or shift > TIME_TOLERANCE or away > VOLTAGE_TOLERANCE
            failed |= bad
            print(f"{sample['name']:>10} {sample['sample']:>6} {probe:>9} {mine:>7} {their:>7} {shift:>9.4f} {away:>9.4f} {worst:>9.4f}"
                  + ("  DISAGREES" if bad else ""))
    seconds = min(run(export["samples"][0], export, 0.025)[1] for _ in range(3))
    print(f"samples/s at 0.025 ms on one core: mrmf {export['samples_per_second']:.1f}, NEURON {1 / seconds:.2f},"
          f" ratio {export['samples_per_second'] * seconds:.0f}")
    if "--store" in sys.argv:
        store(sys.argv[sys.argv.index("--store") + 1], runs, dt)
    sys.exit(1 if failed else 0)


main()
