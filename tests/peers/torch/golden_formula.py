"""The numbers of golden data, without PyTorch: who compares with the files makes the same ones."""
import numpy as np


def formula(count, salt, scale, offset):
    """offset + scale * (u - 1/2), u the top 20 bits of a 32-bit mix of the index: exact in float32 for the powers of
    two used here. (The mix is Ellis & Wellons' lowbias32.)"""
    h = np.arange(count, dtype=np.uint32) + np.uint32((salt * 0x9E3779B9) & 0xFFFFFFFF)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return offset + scale * ((h >> np.uint32(12)).astype(np.float64) * 2.0**-20 - 0.5)
