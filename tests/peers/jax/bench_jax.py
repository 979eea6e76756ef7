"""Training throughput of a network in JAX on the CPU: the networks of ../torch, channels-last, with Flax and Optax.

    .venv-peers/bin/python tests/peers/jax/bench_jax.py --network cosmoflow --sample 64x64x64x4 --batch 8

A step is forward, loss, backward and Adam, compiled as one; its parameters are donated. float32, MSE, synthetic data.
The median of the timed steps counts. The last line is JSON. XLA has a thread for each core that the process may run
on, so --threads takes so many of them.
"""
import argparse
import json
import os
import statistics
import sys
import time

if "--threads" in sys.argv:  # before JAX counts them
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[sys.argv.index("--threads") + 1])])

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def windows(x, pool, size):
    return pool(x, (size,) * (x.ndim - 2), strides=(size,) * (x.ndim - 2))


def batch_norm(**settings):
    return nn.BatchNorm(use_running_average=False, **settings)


class NeuronInverter(nn.Module):
    outputs: int = 19

    @nn.compact
    def __call__(self, x):
        for channels in (30, 90, 180):
            x = nn.relu(windows(nn.Conv(channels, (4,), padding="VALID")(x), nn.max_pool, 4))
        x = batch_norm()(x.reshape(len(x), -1))
        for units in (512, 512, 512, 256, 128):
            x = nn.Dropout(0.05, deterministic=False)(nn.relu(nn.Dense(units)(x)))
        return nn.Dense(self.outputs)(x)


class CosmoFlow(nn.Module):
    outputs: int = 4

    @nn.compact
    def __call__(self, x):
        norm = {"epsilon": 1e-3, "momentum": 0.99}
        x = batch_norm(**norm)(x)
        for i, channels in enumerate((16, 32, 64, 128, 256, 256, 256)):
            x = nn.relu(batch_norm(**norm)(nn.Conv(channels, (3, 3, 3), strides=2 if i == 3 else 1)(x)))
            if i < 5:
                x = windows(x, nn.avg_pool, 2)
        x = nn.Dropout(0.05, deterministic=False)(x.reshape(len(x), -1))
        for units in (2048, 256):
            x = nn.relu(nn.Dropout(0.05, deterministic=False)(nn.Dense(units)(x)))
        return nn.Dense(self.outputs)(x)


class Plane(nn.Module):
    outputs: int = 5

    @nn.compact
    def __call__(self, x):
        for channels in (16, 32):
            x = windows(nn.relu(nn.Conv(channels, (3, 3), padding="VALID")(x)), nn.max_pool, 2)
        return nn.Dense(self.outputs)(nn.relu(nn.Dense(64)(x.reshape(len(x), -1))))


class ResNet(nn.Module):
    outputs: int = 1

    @nn.compact
    def __call__(self, x):
        axes = x.ndim - 2

        def normed(x, channels, kernel, stride=1):
            return batch_norm()(nn.Conv(channels, (kernel,) * axes, strides=stride)(x))

        x = nn.relu(normed(x, 16, 3))
        for level in range(4):
            for block in range(2):
                channels, stride = 16 * 2**level, 2 if level and not block else 1
                body = normed(nn.relu(normed(x, channels, 3, stride)), channels, 3)
                x = nn.relu(body + (x if x.shape == body.shape else normed(x, channels, 1, stride)))
        return nn.Dense(self.outputs)(x.mean(axis=range(1, 1 + axes)))


class UNet(nn.Module):
    outputs: int = 1

    @nn.compact
    def __call__(self, x):
        axes = x.ndim - 2

        def double(x, channels):
            for _ in range(2):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(channels, (3,) * axes)(x)))
            return x

        skips = []
        for channels in (16, 32, 64):
            skips.append(double(x, channels))
            x = windows(skips[-1], nn.max_pool, 2)
        x = double(x, 128)
        for channels, skip in zip((64, 32, 16), reversed(skips)):
            x = nn.ConvTranspose(channels, (2,) * axes, strides=(2,) * axes)(x)
            x = double(jnp.concatenate([skip, x], -1), channels)
        return nn.Conv(self.outputs, (1,) * axes)(x)


NETWORKS = {"neuron_inverter": NeuronInverter, "cosmoflow": CosmoFlow, "plane": Plane, "resnet": ResNet, "unet3d": UNet}


def make_step(options):
    """A function that does one training step and waits for it."""
    sizes = [int(size) for size in options.sample.split("x")]
    model = NETWORKS[options.network]()
    keys = jax.random.split(jax.random.key(1), 4)
    x = jax.random.normal(keys[0], (options.batch, *sizes))
    variables = model.init({"params": keys[1], "dropout": keys[2]}, x)
    params, stats = variables.pop("params"), variables
    optimizer = optax.adam(1e-3)

    def loss_of(params, stats, key, target):
        y, stats = model.apply({"params": params, **stats}, x, rngs={"dropout": key}, mutable=["batch_stats"])
        return jnp.mean((y - target) ** 2), stats

    shape = jax.eval_shape(lambda: model.apply(variables | {"params": params}, x, rngs={"dropout": keys[2]},
                                               mutable=["batch_stats"])[0]).shape
    target = jax.random.uniform(keys[3], shape, minval=-1)

    def update(params, stats, moments, key):
        key, own = jax.random.split(key)
        gradients, stats = jax.grad(loss_of, has_aux=True)(params, stats, own, target)
        changes, moments = optimizer.update(gradients, moments)
        return optax.apply_updates(params, changes), stats, moments, key

    update = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    state = [params, stats, optimizer.init(params), keys[2]]

    def step():
        state[:] = update(*state)
        jax.block_until_ready(state)

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--sample", required=True, help="positions per axis, then channels: 64x64x64x4")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, help="all cores unless given")
    parser.add_argument("--steps", type=int, default=9, help="timed steps, at most")
    parser.add_argument("--seconds", type=float, default=60, help="no further step begins after so long")
    options = parser.parse_args()

    print(f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.2f}: "
          f"{options.network}, sample {options.sample}, batch {options.batch}", flush=True)
    step = make_step(options)
    for _ in range(2):
        step()
    seconds, begun = [], time.perf_counter()
    while len(seconds) < options.steps and (not seconds or time.perf_counter() - begun < options.seconds):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    rate = options.batch / statistics.median(seconds)
    print(f"  {rate:.2f} samples/s (median of {len(seconds)} steps)")
    print(json.dumps({"peer": "JAX", "version": jax.__version__, "network": options.network, "sample": options.sample,
                      "batch": options.batch, "samples_per_second": round(rate, 3),
                      "milliseconds": [round(1e3 * t, 1) for t in seconds]}))


if __name__ == "__main__":
    main()
