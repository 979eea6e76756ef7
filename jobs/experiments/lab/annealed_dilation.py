#!/usr/bin/env python3
"""The laboratory's trial of dilation after a transfer, in PyTorch, because the program has no such switch.

    jobs/experiments/lab/annealed_dilation.py --data data.h5 [--seeds 1 2 3] [--output docs/results/lab/annealed-dilation.csv]

The data are the map's: mrmf simulate neuron --samples 16000 --cells 8 --seed 1 --output data.h5. A Neuron Inverter is
trained on means of two for six epochs at a constant rate, and transferred with an interpolated top. Three epochs at full
resolution follow by the linear rule, each time from the same weights and in the same order: with plain convolutions; with
taps twice as far apart, which commute with the means; and with a mixture of both whose dilated share falls from one to none
over the first epoch. Losses are those of validation, with statistics of batch norms of eight batches."""
import argparse
import copy
import csv
import pathlib
import sys

import h5py
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path.append(str(ROOT / "tests/peers/torch"))
from network import FULL, NeuronInverter  # noqa: E402

BATCH, RATE, COARSE, LAST = 64, 3.5e-4, 6, 3
WAYS = {"plain": None, "annealed": lambda done: max(0.0, 1 - done), "dilated": lambda done: 1.0}


class Network(NeuronInverter):
    dilated = 0.0  # the share of the convolutions' outputs that comes from dilated ones with the same weights

    def convolve(self, conv, x):
        y = 0
        if self.dilated < 1:
            y = (1 - self.dilated) * conv(x)
        if self.dilated > 0:
            y = y + self.dilated * F.conv1d(F.pad(x, (1, 2)), conv.weight, conv.bias, dilation=2)
        return y


def read(path):
    with h5py.File(path) as file:
        x = {s: torch.from_numpy(file[f"{s}_frames"][:]).transpose(1, 2).contiguous() for s in ("train", "val")}
        y = {s: torch.from_numpy(file[f"{s}_unitStar_par"][:]).float() for s in ("train", "val")}
    return x, y


def validate(network, x, y, order):
    norm, momentum = network.norm, network.norm.momentum
    norm.reset_running_stats()
    norm.momentum = None
    network.train()
    with torch.no_grad():
        for i in range(8):
            network(x["train"][order[i * BATCH:(i + 1) * BATCH]])
        norm.momentum = momentum
        network.eval()
        squares = sum(float(((network(a) - b) ** 2).sum()) for a, b in zip(x["val"].split(200), y["val"].split(200)))
    network.train()
    return squares / y["val"].numel()


def train(network, x, y, epochs, rate, generator, dilated=None):
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, fused=True)
    samples = len(y["train"])
    steps, losses = samples // BATCH, []
    for epoch in range(epochs):
        order = torch.randperm(samples, generator=generator)
        for k in range(steps):
            done = epoch + k / steps
            for group in optimizer.param_groups:
                group["lr"] = rate(done)
            if dilated:
                network.dilated = dilated(done)
            rows = order[k * BATCH:(k + 1) * BATCH]
            loss = F.mse_loss(network(x["train"][rows]), y["train"][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dilated:
            network.dilated = dilated(epoch + 1)
        losses.append(validate(network, x, y, order))
    return losses


def interpolated(w, count):
    """Weights of (..., positions, channels) for so many positions, linear between the middles of the old ones."""
    old = w.shape[-2]
    at = ((torch.arange(count) + .5) * old / count - .5).clamp(0, old - 1)
    low = at.floor().long().clamp(max=old - 2)
    share = (at - low).unsqueeze(-1)
    return w[..., low, :] * (1 - share) + w[..., low + 1, :] * share


def transferred(coarse, length):
    fine = Network(length, FULL["channels"], FULL["dense"], 0.05)
    fine.convs.load_state_dict(coarse.convs.state_dict())
    channels = FULL["channels"][-1]
    old, new = coarse.norm.num_features // channels, fine.norm.num_features // channels
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(fine.norm, name).copy_(interpolated(getattr(coarse.norm, name).view(old, channels), new).flatten())
        first = interpolated(coarse.denses[0].weight.view(-1, old, channels), new).flatten(1) * (old / new)
        fine.denses[0].weight.copy_(first)
        fine.denses[0].bias.copy_(coarse.denses[0].bias)
    for a, b in zip(list(fine.denses)[1:], list(coarse.denses)[1:]):
        a.load_state_dict(b.state_dict())
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="file of mrmf simulate neuron")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/results/lab/annealed-dilation.csv")
    options = parser.parse_args()
    torch.set_num_threads(2)
    x, y = read(options.data)
    means = {split: F.avg_pool1d(values, 2) for split, values in x.items()}
    length = x["train"].shape[2]
    rows = []
    for seed in options.seeds:
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        coarse = Network(length // 2, FULL["channels"], FULL["dense"], 0.05)
        losses = train(coarse, means, y, COARSE, lambda done: RATE, generator)
        rows.append([seed, "coarse", "", *(round(loss, 5) for loss in losses)])
        start, state = transferred(coarse, length), generator.get_state()
        for name, dilated in WAYS.items():
            network = copy.deepcopy(start)
            generator.set_state(state)
            torch.manual_seed(seed + 100)
            network.dilated = dilated(0) if dilated else 0.0
            order = torch.randperm(len(y["train"]), generator=torch.Generator().manual_seed(9))
            before = validate(network, x, y, order)
            losses = train(network, x, y, LAST, lambda done: RATE * (1 - done / LAST), generator, dilated)
            rows.append([seed, name, round(before, 5), *(round(loss, 5) for loss in losses)])
            print(*rows[-1], flush=True)
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "convolutions", "right after the transfer", *(f"after epoch {e + 1}" for e in range(COARSE))])
        writer.writerows(row + [""] * (3 + COARSE - len(row)) for row in rows)


if __name__ == "__main__":
    main()
