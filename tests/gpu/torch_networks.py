"""What torch_bench.py trains: a network with its data, in the form PyTorch is fastest with. Needs PyTorch."""
import pathlib
import sys

import torch
from torch import nn

# The networks' definitions, shared with the comparison of numbers; in a bundle they lie beside this file.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "peers" / "torch"))



def neuron_inverter(length, channels_last):
    from network import FULL, NeuronInverter
    return NeuronInverter(length, FULL["channels"], FULL["dense"], dropout=0.05, two_d=channels_last)


def cosmoflow(edge):
    from cosmoflow import CosmoFlow
    model = CosmoFlow([edge] * 3)
    # The definition pads by hand, which copies the whole input. Conv3d does it by itself where both sides are alike.
    for i, conv in enumerate(model.convs):
        if conv.stride[0] == 1:
            model.convs[i] = nn.Conv3d(conv.in_channels, conv.out_channels, conv.kernel_size, padding=1)
    return model


def make_network(name, length, channels_last):
    """(model, shape of a sample, its memory format, number of outputs). Neuron Inverter in channels-last is 2-D images
    of height one: PyTorch has no channels-last form of 1-D data."""
    if name == "neuron_inverter":
        shape = (3, 1, length) if channels_last else (3, length)
        memory = torch.channels_last if channels_last else torch.contiguous_format
        return neuron_inverter(length, channels_last), shape, memory, 19
    memory = torch.channels_last_3d if channels_last else torch.contiguous_format
    return cosmoflow(length), (4, length, length, length), memory, 4


class Masters:
    """Adam on float32 copies of a bfloat16 model's parameters: the least memory traffic PyTorch offers."""

    def __init__(self, parameters, make_adam):
        self.parameters = list(parameters)
        self.masters = [p.detach().float().clone().requires_grad_() for p in self.parameters]
        for master in self.masters:
            master.grad = torch.zeros_like(master)
        self.adam = make_adam(self.masters)

    def zero_grad(self, set_to_none):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.parameters])
        self.adam.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, [m.detach() for m in self.masters])


class Training:
    """A model, its optimizer, one batch on the device, and step(): a whole training step on that batch."""

    def __init__(self, options, precision, channels_last, compile_mode=None):
        torch.manual_seed(1)
        device = torch.device(options.device)
        model, shape, memory, outputs = make_network(options.network, options.length, channels_last)
        pure = precision == "bf16"
        if pure:
            model = model.to(torch.bfloat16)
            for layer in model.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.float()  # statistics stay float32, as ours do
        self.model = model.to(device).to(memory_format=memory)
        type_of_x = torch.float32 if precision == "tf32" else torch.bfloat16
        self.x = torch.randn(options.rows, *shape).to(device, type_of_x).contiguous(memory_format=memory)
        self.target = torch.rand(options.rows, outputs, device=device) * 2 - 1
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "autocast",
                                       cache_enabled=False)
        on_gpu = device.type == "cuda"
        make_adam = lambda parameters: torch.optim.Adam(parameters, lr=1e-3, fused=True, capturable=on_gpu)
        parameters = list(self.model.parameters())
        self.optimizer = Masters(parameters, make_adam) if pure else make_adam(parameters)
        self.forward = torch.compile(self.loss, mode=compile_mode) if compile_mode else self.loss

    def loss(self, x, target):
        return nn.functional.mse_loss(self.model(x).float(), target)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast:
            loss = self.forward(self.x, self.target)
        loss.backward()
        self.optimizer.step()
        return loss

    def captured(self, warmup):
        """step() as one replayed CUDA graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.static_loss = self.step()
        return graph.replay


class PinnedLoader:
    """Fresh batches from pinned memory: a copy stream brings the next one while the present one is trained on."""

    def __init__(self, x):
        self.x = x
        self.host = [torch.empty_like(x, device="cpu").copy_(x).pin_memory() for _ in range(2)]
        self.staged = [torch.empty_like(x) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.used = [torch.cuda.Event() for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.next = 0
        self.bring(0)

    def bring(self, slot):
        self.stream.wait_event(self.used[slot])
        with torch.cuda.stream(self.stream):
            self.staged[slot].copy_(self.host[slot], non_blocking=True)
            self.copied[slot].record()

    def load(self):
        """Puts the next batch into x, and starts bringing the one after it."""
        slot, self.next = self.next, 1 - self.next
        torch.cuda.current_stream().wait_event(self.copied[slot])
        self.x.copy_(self.staged[slot])
        self.used[slot].record()
        self.bring(1 - slot)
