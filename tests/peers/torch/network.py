"""The Neuron Inverter network in PyTorch, as the comparisons use it (docs/architecture.md lists the layers)."""
import torch
from torch import nn

KERNEL = 4
POOL = 4


class NeuronInverter(nn.Module):
    """Conv, max pool and ReLU three times; batch norm over the flat features; dense layers, each but the last with
    ReLU and dropout. two_d runs the same arithmetic as 2-D images of height one, for PyTorch's channels-last kernels.
    Input: (n, 3, t), or (n, 3, 1, t) with two_d."""

    def __init__(self, length, channels, dense, dropout, two_d=False):
        super().__init__()
        conv, pool = (nn.Conv2d, nn.MaxPool2d) if two_d else (nn.Conv1d, nn.MaxPool1d)
        wide = (lambda n: (1, n)) if two_d else (lambda n: n)
        self.convs = nn.ModuleList()
        for before, after in zip(channels, channels[1:]):
            self.convs.append(conv(before, after, wide(KERNEL)))
            length = (length - KERNEL + 1) // POOL
        self.pool = pool(wide(POOL))
        flat = length * channels[-1]
        self.norm = nn.BatchNorm1d(flat)
        self.denses = nn.ModuleList(nn.Linear(a, b) for a, b in zip([flat, *dense], dense))
        self.dropout = nn.Dropout(dropout)
        self.two_d = two_d

    def convolve(self, conv, x):
        return conv(x)

    def forward(self, x):
        for conv in self.convs:
            x = torch.relu(self.pool(self.convolve(conv, x)))
        # Channels-last flat order, feature = t * channels + c, so that nothing after it needs a permutation.
        # (In the channels-last memory format this is a view.)
        x = (x.permute(0, 2, 3, 1) if self.two_d else x.transpose(1, 2)).flatten(1)
        x = self.norm(x)
        for dense in self.denses[:-1]:
            x = self.dropout(torch.relu(dense(x)))
        return self.denses[-1](x)


FULL = {"length": 1600, "channels": [3, 30, 90, 180], "dense": [512, 512, 512, 256, 128, 19]}
