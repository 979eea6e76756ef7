# %% [markdown]
# # From NumPy arrays to an exported model
#
# This notebook makes recordings, trains on them in the ordinary way and with the schedule that the program chooses,
# shows what was saved, and takes the model away as ONNX. It needs the package `mrmf`
# ([From Python](guide/python.md)); the pictures are drawn where matplotlib is there. Half of its five minutes is
# training.

# %%
import numpy as np

import mrmf

# %% [markdown]
# ## The arrays
#
# A row for each sample, channels last: 2,000 recordings of 256 points and two channels. Each is a damped oscillation with
# noise. The labels are what made it: its frequency and its damping, in units of their own.

# %%
random = np.random.default_rng(1)
time = np.linspace(0, 1, 256)
frequency, damping = random.uniform(3, 9, 2000), random.uniform(1, 4, 2000)
wave = np.exp(-damping[:, None] * time) * np.sin(2 * np.pi * frequency[:, None] * time)
samples = np.stack([wave, np.gradient(wave, axis=1) * 20], axis=-1) + random.normal(0, 0.1, (2000, 256, 2))
labels = np.stack([frequency, damping], axis=-1)
train, test = slice(0, 1800), slice(1800, 2000)

# %% [markdown]
# ## A file
#
# `mrmf.write` streams any array into HDF5: NumPy, memory maps, xarray, zarr, dask. Names of axes and units of xarray
# arrays go along. `mrmf.init` looks at the file and writes a configuration. Every key completes with Tab.

# %%
mrmf.write("recordings.h5", samples[train].astype("float32"), labels[train], label_names=["frequency", "damping"],
           overwrite=True)
config = mrmf.init("recordings.h5")
config.training.epochs = 8
print(config.to_toml())

# %% [markdown]
# What a run would do, before anything runs:

# %%
plan = mrmf.plan(config)
[(step["step"], step.get("role"), step.get("resolution"), step.get("epochs")) for step in plan["steps"]]

# %% [markdown]
# ## Training
#
# With `method.name = "auto"`, which `init` writes, coarse recordings come first. The baseline sees full resolution alone.

# %%
chosen = mrmf.train(config, folder="runs/chosen", overwrite=True)
baseline = mrmf.train(config, folder="runs/baseline", set={"method.name": "baseline"}, overwrite=True)
print(mrmf.compare([baseline, chosen]))

# %% [markdown]
# What was saved: the validation loss over the arithmetic that training cost. The coarse phase is dotted.

# %%
try:
    picture = mrmf.plot([baseline, chosen], "saved.png")
except ImportError:
    picture = "no matplotlib here: pip install matplotlib"
picture

# %% [markdown]
# `chosen.plot()` draws the training and validation losses of one run, epoch by epoch.

# %% [markdown]
# ## Using the model
#
# NumPy in, NumPy out, in the labels' own units:

# %%
predicted = chosen.predict(samples[test].astype("float32"))
print("error of frequency and damping:", np.abs(predicted - labels[test]).mean(axis=0))

# %%
chosen.export("model.onnx", overwrite=True)

# %% [markdown]
# ## Arrays of other packages
#
# xarray, for instance from a netCDF file, where the package is there:

# %%
try:
    import xarray
except ImportError:
    print("no xarray here")
else:
    array = xarray.DataArray(samples[train].astype("float32"), dims=("event", "time", "channel"), attrs={"units": "mV"})
    array.to_dataset(name="voltage").to_netcdf("recordings.nc", engine="scipy")
    opened = xarray.open_dataset("recordings.nc")
    mrmf.write("from-netcdf.h5", opened["voltage"], labels[train], names=("voltage", "parameters"), overwrite=True)
    print(mrmf.init("from-netcdf.h5").data)

# %%
try:
    import zarr
except ImportError:
    print("no zarr here")
else:
    stored = zarr.open("recordings.zarr", mode="w", shape=samples[train].shape, chunks=(100, 256, 2), dtype="float32")
    stored[:] = samples[train]
    mrmf.write("from-zarr.h5", stored, labels[train], overwrite=True)
    print(mrmf.init("from-zarr.h5").data)
