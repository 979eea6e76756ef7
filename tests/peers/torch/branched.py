"""The presets unet, unet3d and resnet in PyTorch, written from the papers and not from mrmf's list. As a script it prints
parameters and multiply-adds times two of convolutions and dense layers, forward, of one sample:

    .venv-peers/bin/python tests/peers/torch/branched.py

tests/unit/test_branched_presets.cpp holds mrmf's networks to these numbers.
"""
import torch
from torch import nn


def kinds(axes):
    return [getattr(nn, f"{name}{axes}d") for name in ("Conv", "ConvTranspose", "MaxPool", "BatchNorm")]


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padding, norms, and transposed convolutions that keep half the channels."""

    def __init__(self, axes, channels, outputs, levels=3, width=16, norm="group"):
        super().__init__()
        conv, transpose, pool, batch_norm = kinds(axes)

        def double(before, after):
            steps = []
            for inputs in (before, after):
                steps += [conv(inputs, after, 3, padding=1),
                          nn.GroupNorm(8, after) if norm == "group" else batch_norm(after), nn.ReLU(inplace=True)]
            return nn.Sequential(*steps)

        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([channels, *widths], widths))
        self.up = nn.ModuleList(transpose(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(double(2 * w, w) for w in widths[:-1])
        self.pool, self.output = pool(2), conv(width, outputs, 1)

    def forward(self, x):
        skips = []
        for block in self.down[:-1]:
            x = block(x)
            skips.append(x)
            x = self.pool(x)
        x = self.down[-1](x)
        for up, merge, skip in zip(reversed(self.up), reversed(self.merge), reversed(skips)):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.output(x)


class ResNet(nn.Module):
    """He et al. 2016: basic blocks, two per level; a 3-wide stem without pooling; convolutions have biases."""

    def __init__(self, axes, channels, outputs, levels=4, width=16, norm="batch"):
        super().__init__()
        conv, _, _, batch_norm = kinds(axes)

        def normed(n):
            return batch_norm(n) if norm == "batch" else nn.GroupNorm(8, n)

        self.stem = nn.Sequential(conv(channels, width, 3, padding=1), normed(width), nn.ReLU())
        self.bodies, self.shortcuts = nn.ModuleList(), nn.ModuleList()
        before = width
        for level in range(levels):
            for block in range(2):
                after, stride = width * 2**level, 2 if level and not block else 1
                self.bodies.append(nn.Sequential(conv(before, after, 3, stride, 1), normed(after), nn.ReLU(),
                                                 conv(after, after, 3, padding=1), normed(after)))
                same = before == after
                self.shortcuts.append(nn.Identity() if same else nn.Sequential(conv(before, after, 1, stride), normed(after)))
                before = after
        self.output = nn.Linear(before, outputs)

    def forward(self, x):
        x = self.stem(x)
        for body, shortcut in zip(self.bodies, self.shortcuts):
            x = torch.relu(body(x) + shortcut(x))
        return self.output(x.flatten(2).mean(2))


def flop(model, shape):
    total = 0

    def count(module, inputs, output):
        nonlocal total
        if isinstance(module, nn.Linear):
            total += 2 * module.weight.numel()
        elif hasattr(module, "transposed"):  # every input or output position meets every weight once
            positions = (inputs[0] if module.transposed else output)[0, 0].numel()
            total += 2 * module.weight.numel() * positions

    for module in model.modules():
        module.register_forward_hook(count)
    with torch.no_grad():
        model.eval()(torch.zeros(1, *shape))
    return total


CASES = [("unet3d, 32^3 of 1 channel, 2 outputs", UNet(3, 1, 2), (1, 32, 32, 32)),
         ("unet3d, 2 levels, width 8, batch norm, 16x8x24 of 3, 5 outputs", UNet(3, 3, 5, 2, 8, "batch"), (3, 16, 8, 24)),
         ("unet, 64x48 of 1 channel, 1 output", UNet(2, 1, 1), (1, 64, 48)),
         ("resnet, 40 of 2 channels, 3 outputs", ResNet(1, 2, 3), (2, 40)),
         ("resnet, 3 levels, width 8, group norm, 15x14 of 3, 10 outputs", ResNet(2, 3, 10, 3, 8, "group"), (3, 15, 14)),
         ("resnet, 16^3 of 1 channel, 4 outputs", ResNet(3, 1, 4), (1, 16, 16, 16))]

if __name__ == "__main__":
    for name, model, shape in CASES:
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {flop(model, shape)} FLOP")
