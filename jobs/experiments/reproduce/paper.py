"""Figures of the paper (K. Wang et al., "Multi-Resolution Model Fusion for Accelerating the Convolutional Neural Network
Training"), seconds on Perlmutter's A100 GPUs."""

# (validation loss, coarse epochs, dense epochs, epochs after fusion, total seconds)
METHODS = {
    "table1": {"baseline": (0.0025, None, None, 88, 2181.61), "mrt": (0.0025, 55, None, 54, 1498.82),
               "one-fusion": (0.0024, 52, 7, 38, 1258.43)},
    "table2": {"baseline": (0.0025, None, None, 88, 1354.04), "mrt": (0.0025, 55, None, 54, 763.31),
               "one-fusion": (0.0024, 52, 8, 37, 681.17)},
    "table5": {"baseline": (0.0400, None, None, 84, 3840.60), "mrt": (0.0399, 35, None, 41, 2802.61),
               "one-fusion": (0.0398, 35, 4, 32, 2528.51)},
    "table6": {"baseline": (0.0400, None, None, 83, 2045.90), "mrt": (0.0399, 34, None, 41, 1553.31),
               "one-fusion": (0.0399, 34, 4, 32, 1418.01)},
}

# (first stage, second stage, finetune, total) seconds, validation loss
STAGES = {
    "table3": {"one-fusion": (289.11, None, 969.30, 1258.43, 0.0024),
               "two-fusions": (135.49, 328.52, 683.55, 1147.59, 0.0024)},
    "table7": {"one-fusion": (709.20, None, 1541.00, 2250.21, 0.040),
               "two-fusions": (166.35, 525.60, 1421.50, 2113.45, 0.039)},
}

# Of an epoch, by number of GPUs and data set: I/O, computation, communication, all
EPOCHS = {
    "table4": {(32, "coarse"): (0.25, 1.08, 0.43, 1.76), (32, "dense"): (16.77, 8.95, 0.99, 26.71),
               (64, "coarse"): (0.15, 0.54, 0.13, 0.82), (64, "dense"): (7.01, 4.46, 1.77, 13.24)},
    "table8": {(16, "coarse"): (None, 10.83, 10.83, 20.03), (16, "dense"): (None, 19.89, 21.43, 41.32),
               (32, "coarse"): (None, 5.63, 5.43, 11.06), (32, "dense"): (None, 10.11, 14.07, 24.18)},
}

# Seconds of an epoch of the original model, and of averaging the data on CPUs and on GPUs
POOLING = {"cosmoflow": (26.71, 6.46, 4.02), "neuron": (41.32, 1.87, 1.80)}

# Section 4.3.2, Figure 5: total seconds by local batch of the coarse model; the text gives these two alone
BATCHES = {2048: 2250.21, 4096: 2501.51}
