"""Seconds of a locally connected layer in PyTorch, forward and with both gradients, in several ways:

    .venv-peers/bin/python tests/peers/torch/local_layer.py [--rows 64] [--size 64] [--channels 3] [--kernel 18]
        [--filters 21] [--threads 2]

`mrmf bench layers` prints those of mrmf's. PyTorch has no such layer: fields are unfolded, and multiplied by einsum, or
by bmm with the fields in its order."""
import argparse
import time

import torch
from torch.nn import functional as F


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rows", 64), ("size", 64), ("channels", 3), ("kernel", 18), ("filters", 21), ("threads", 2),
                        ("times", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    positions, field = (o.size - o.kernel + 1) ** 2, o.kernel ** 2 * o.channels
    x = torch.randn(o.rows, o.channels, o.size, o.size, requires_grad=True)
    w = torch.randn(positions, field, o.filters, requires_grad=True)

    def bmm(x, w):
        return torch.bmm(F.unfold(x, o.kernel).permute(2, 0, 1), w)

    def views(x, w):
        fields = x.unfold(2, o.kernel, 1).unfold(3, o.kernel, 1).permute(2, 3, 0, 1, 4, 5)
        return torch.bmm(fields.reshape(positions, o.rows, field), w)

    def einsum(x, w):
        return torch.einsum("nkp,pkf->npf", F.unfold(x, o.kernel), w)

    print(f"PyTorch {torch.__version__}, {o.threads} threads, {w.numel() / 1e6:.1f} million weights, {o.rows} rows")
    for way in (bmm, views, einsum):
        forward = both = float("inf")
        for _ in range(o.times):
            begin = time.perf_counter()
            y = way(x, w)
            forward = min(forward, time.perf_counter() - begin)
            torch.autograd.grad(y, (x, w), torch.ones_like(y))
            both = min(both, time.perf_counter() - begin)
        print(f"{way.__name__:7s} forward {forward:.4f} s, with gradients {both:.4f} s")


if __name__ == "__main__":
    main()
