"""The two CosmoFlow networks in PyTorch, as the comparisons use them (src/config/presets.cpp names their sources).

Sizes are the presets' unless a smaller list is given. Input: (n, 4, d, h, w). Flat order is channels-last, as ours.
"""
import torch
from torch import nn
from torch.nn import functional as F

CONVS = [16, 32, 64, 128, 256, 256, 256]
STRIDED = 3  # index of the convolution with stride 2
POOLED = 5  # the first five convolutions are pooled
DENSE = [2048, 256, 4]
MLPERF_CONVS = [32, 64, 128, 256, 512]
MLPERF_DENSE = [128, 64, 4]


def same_pads(size, kernel, stride):
    """TensorFlow's "same": zeros before and after one axis."""
    total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return total // 2, total - total // 2


class SameConv3d(nn.Conv3d):
    """A 3^3 convolution, padded by F.pad because Conv3d pads both sides alike."""

    def __init__(self, before, after, stride=1):
        super().__init__(before, after, 3, stride)

    def forward(self, x):
        pads = [same_pads(size, 3, self.stride[0]) for size in reversed(x.shape[2:])]  # F.pad starts at the last axis
        return super().forward(F.pad(x, [zeros for pair in pads for zeros in pair]))


def flatten(x):
    return x.movedim(1, -1).flatten(1)


def dense_stack(flat, units):
    return nn.ModuleList(nn.Linear(a, b) for a, b in zip([flat, *units], units))


class CosmoFlow(nn.Module):
    """Batch norm of the input; convolution, batch norm, ReLU, average pool; dense layers with dropout before ReLU."""

    def __init__(self, size, convs=CONVS, dense=DENSE, pooled=POOLED, dropout=0.05):
        super().__init__()
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList([self.norm(4)])
        for i, (before, after) in enumerate(zip([4, *convs], convs)):
            stride = 2 if i == STRIDED else 1
            self.convs.append(SameConv3d(before, after, stride))
            self.norms.append(self.norm(after))
            size = [-(-s // stride) // (2 if i < pooled else 1) for s in size]
        self.pooled = pooled
        self.denses = dense_stack(size[0] * size[1] * size[2] * convs[-1], dense)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def norm(channels):
        return nn.BatchNorm3d(channels, eps=1e-3, momentum=0.01)  # Keras' defaults in PyTorch's terms

    def before_relu(self, x):
        """Yields what each of the bottom's ReLUs gets; the last value sent out is the flat vector."""
        x = self.norms[0](x)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms[1:])):
            x = norm(conv(x))
            yield x
            x = torch.relu(x)
            if i < self.pooled:
                x = F.avg_pool3d(x, 2)
        yield flatten(x)

    def forward(self, x):
        *_, x = self.before_relu(x)
        x = self.dropout(x)
        for dense in self.denses[:-1]:
            x = torch.relu(self.dropout(dense(x)))
        return self.denses[-1](x)


class CosmoFlowMlperf(nn.Module):
    """Convolution, leaky ReLU, max pool; dense layers with leaky ReLU, then dropout; 1.2 tanh at the end."""

    def __init__(self, size, convs=MLPERF_CONVS, dense=MLPERF_DENSE, pooled=len(MLPERF_CONVS), dropout=0.5):
        super().__init__()
        self.convs = nn.ModuleList(SameConv3d(a, b) for a, b in zip([4, *convs], convs))
        size = [s >> pooled for s in size]
        self.norms = []
        self.pooled = pooled
        self.denses = dense_stack(size[0] * size[1] * size[2] * convs[-1], dense)
        self.dropout = nn.Dropout(dropout)

    def before_relu(self, x):
        for i, conv in enumerate(self.convs):
            x = conv(x)
            yield x
            x = F.leaky_relu(x, 0.3)
            if i < self.pooled:
                x = F.max_pool3d(x, 2)
        yield flatten(x)

    def forward(self, x):
        *_, x = self.before_relu(x)
        for dense in self.denses[:-1]:
            x = self.dropout(F.leaky_relu(dense(x), 0.3))
        return 1.2 * torch.tanh(self.denses[-1](x))
