"""Makes the numbers that tests/cli/test_parts.py compares with: golden_parts.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden_parts.py

The preset "jag", an autoencoder with a discriminator, then a forward and an inverse model, written out in PyTorch and
trained in float64 as `mrmf train` trains it: the same first parameters, the same normal numbers, the same data. An epoch
is one step with all rows. The file holds the terms of every epoch's loss, the validation losses, and the length and the
first numbers of every parameter in the end.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import golden_common as common

SCALARS, PIXELS, INPUTS, CODE = 15, 12, 5, 20
OUTPUTS = SCALARS + PIXELS
ROWS, VALIDATION, EPOCHS, SEED = 8, 4, 6, 7
RATE, BETAS, EPSILON, DECAY = 2e-3, (0.9, 0.99), 1e-3, 1e-4
MASK = (1 << 64) - 1


def mix(a, b=0, c=0):
    """kernels/random.hpp"""
    h = 0
    for word in (a, b, c):
        h = (h + 0x9E3779B97F4A7C15 + word) & MASK
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
        h ^= h >> 31
    return h


class Rng:
    """Numbers of kernels/random.hpp, which come from Philox 4x32-10."""

    def __init__(self, key):
        self.key, self.counter, self.left = key, 0, []

    def next(self):
        if not self.left:
            c = [self.counter & 0xFFFFFFFF, self.counter >> 32, 0, 0]
            k0, k1 = self.key & 0xFFFFFFFF, self.key >> 32
            for _ in range(10):
                p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
                k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
            self.left = c
            self.counter += 1
        return self.left.pop(0)

    def uniform(self):
        high, low = self.next(), self.next()
        return (((high << 32) | low) >> 11) * 2.0**-53

    def normal(self):
        radius = np.sqrt(-2.0 * np.log(1.0 - self.uniform()))
        return radius * np.cos(2.0 * np.pi * self.uniform())


def data():
    """Inputs and answers of both splits, float32, as the test writes them into its file."""
    def numbers(rows, width, salt):
        return common.formula(rows * width, salt, 2.0, 0.0).reshape(rows, width).astype(np.float32)
    return {split: (numbers(rows, INPUTS, salt), numbers(rows, SCALARS, salt + 1), numbers(rows, PIXELS, salt + 2))
            for split, rows, salt in (("train", ROWS, 11), ("val", VALIDATION, 21))}


# Where layers stand in the list: the keys of first parameters and of noise.
def positions():
    names = ["answer", "answer_scalars", "answer_images"]

    def chain(name, units, between):
        for i in range(len(units)):
            names.append(name if i + 1 == len(units) else f"{name}{i + 1}")
            if i + 1 < len(units):
                names.append(f"{name}{i + 1}_{between[i]}")
    chain("encoder", [32, 256, 128, CODE], ["silu", "tanh", "tanh"])
    chain("decoder", [64, 128, 256, OUTPUTS], ["silu"] * 3)
    names.extend(["decoder_scalars", "decoder_images", "prior", "right"])
    chain("critic", [128, 64, 1], ["relu"] * 2)
    names.extend(["code", "wrong"])
    chain("judge", [128, 64, 1], ["relu"] * 2)
    names.append("doubtful")
    chain("frozen", [128, 64, 1], ["relu"] * 2)
    chain("inverse", [16, 128, 64, INPUTS], ["relu"] * 3)
    chain("forward", [32, 256, 1024, CODE], ["relu"] * 3)
    return {name: i for i, name in enumerate(names)}


SIZES = {"encoder": [OUTPUTS, 32, 256, 128, CODE], "decoder": [CODE, 64, 128, 256, OUTPUTS],
         "critic": [OUTPUTS + CODE, 128, 64, 1], "inverse": [CODE, 16, 128, 64, INPUTS],
         "forward": [INPUTS, 32, 256, 1024, CODE]}
BETWEEN = {"encoder": [F.silu, torch.tanh, torch.tanh], "decoder": [F.silu] * 3, "critic": [F.relu] * 2,
           "inverse": [F.relu] * 3, "forward": [F.relu] * 3}


def first_parameters():
    places, seed = positions(), mix(SEED, 0x6D6F64656C, 0)
    parameters = {}
    for part, sizes in SIZES.items():
        for i, (fan_in, out) in enumerate(zip(sizes, sizes[1:])):
            name = part if i + 2 == len(sizes) else f"{part}{i + 1}"
            rng, bound = Rng(mix(seed, places[name])), np.sqrt(1.0 / fan_in)
            draw = np.array([-bound + 2 * bound * rng.uniform() for _ in range(fan_in * out + out)], dtype=np.float32)
            parameters[name] = [torch.tensor(draw[:fan_in * out].reshape(out, fan_in), dtype=torch.float64, requires_grad=True),
                                torch.tensor(draw[fan_in * out:], dtype=torch.float64, requires_grad=True)]
    return parameters


def apply(part, parameters, x):
    count = len(SIZES[part]) - 1
    for i in range(count):
        weight, bias = parameters[part if i + 1 == count else f"{part}{i + 1}"]
        x = F.linear(x, weight, bias)
        if i + 1 < count:
            x = BETWEEN[part][i](x)
    return x


def noise(step):
    key = mix(mix(SEED, 4), step, 0x6E6F697365)
    rows = []
    for row in range(ROWS):
        rng = Rng(mix(key, positions()["prior"], row))
        rows.append([rng.normal() for _ in range(CODE)])
    return torch.tensor(np.array(rows, dtype=np.float32), dtype=torch.float64)


def judged(logits, value):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, value))


def autoencoder_terms(parameters, frozen, answer, step):
    code = apply("encoder", parameters, answer)
    recovered = apply("decoder", parameters, code)
    beside = lambda z: torch.cat([answer, z], dim=1)
    return {"right": judged(apply("critic", parameters, beside(noise(step))), 1.0),
            "wrong": judged(apply("critic", parameters, beside(code.detach())), 0.0),
            "adversarial": 0.01 * judged(apply("critic", frozen, beside(code)), 1.0),
            "scalars": F.mse_loss(recovered[:, :SCALARS], answer[:, :SCALARS]),
            "images": F.mse_loss(recovered[:, SCALARS:], answer[:, SCALARS:])}


def surrogate_terms(parameters, x, answer):
    code = apply("encoder", parameters, answer).detach()
    forward, inverse = apply("forward", parameters, x), apply("inverse", parameters, code)
    predicted = apply("decoder", parameters, forward)
    return {"forward_code": F.mse_loss(forward, code),
            "forward_scalars": F.mse_loss(predicted[:, :SCALARS], answer[:, :SCALARS]),
            "forward_images": F.mse_loss(predicted[:, SCALARS:], answer[:, SCALARS:]),
            "inverse": F.mse_loss(inverse, x),
            "circle_inputs": 1e-3 * F.mse_loss(apply("inverse", parameters, forward), x),
            "circle_code": 1e-3 * F.mse_loss(apply("forward", parameters, inverse), code)}


def optimizer_of(parameters, parts, decay):
    chosen = [tensor for name, pair in parameters.items() if name.rstrip("0123456789") in parts for tensor in pair]
    return torch.optim.Adam(chosen, lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=decay)


def main():
    both = {split: [torch.tensor(values, dtype=torch.float64) for values in arrays] for split, arrays in data().items()}
    x, answer = both["train"][0], torch.cat(both["train"][1:], dim=1)
    parameters = first_parameters()
    copied = lambda: {name: [t.detach().clone() for t in pair] for name, pair in parameters.items() if name.startswith("critic")}
    frozen = copied()
    autoencoder = optimizer_of(parameters, {"encoder", "decoder", "critic"}, DECAY)
    surrogate = optimizer_of(parameters, {"forward", "inverse"}, 0)
    epochs = []
    for step in range(EPOCHS):
        first = step < EPOCHS // 2
        terms = autoencoder_terms(parameters, frozen, answer, step) if first else surrogate_terms(parameters, x, answer)
        optimizer = autoencoder if first else surrogate
        optimizer.zero_grad()
        sum(terms.values()).backward()
        optimizer.step()
        if (step + 1) % 2 == 0:
            frozen = copied()
        with torch.no_grad():
            predicted = apply("decoder", parameters, apply("forward", parameters, both["val"][0]))
            validation = F.mse_loss(predicted, torch.cat(both["val"][1:], dim=1)).item()
        epochs.append({"terms": {name: float(f"{value.item():.9g}") for name, value in terms.items()},
                       "validation_loss": float(f"{validation:.9g}")})
    ends = {}
    for name, pair in parameters.items():
        for what, tensor in zip(("weight", "bias"), pair):
            values = tensor.detach().numpy().reshape(-1)
            ends[f"{name}/{what}"] = {"norm": float(f"{np.linalg.norm(values):.9g}"),
                                      "first": [float(f"{v:.9g}") for v in values[:8]]}
    golden = {"torch": torch.__version__, "seed": SEED, "rows": ROWS, "validation": VALIDATION, "outputs": OUTPUTS,
              "learning_rate": RATE, "betas": BETAS, "epsilon": EPSILON, "epochs": epochs, "parameters": ends}
    path = pathlib.Path(__file__).with_name("golden_parts.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{path}: {path.stat().st_size} bytes, PyTorch {torch.__version__}")
    for epoch in epochs:
        print(epoch)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
