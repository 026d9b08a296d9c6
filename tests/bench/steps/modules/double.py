"""y = 2 x, in a new array; the time that it takes goes into the item's meta attributes."""

import time

import numpy as np


def in_place(kspace):
    begin = time.perf_counter_ns()
    y = kspace.empty()
    np.multiply(kspace.data, np.float32(2), out=y)
    kspace.meta["ns"] = str(time.perf_counter_ns() - begin)
    return y


def plain(kspace):
    begin = time.perf_counter_ns()
    y = kspace.data * np.float32(2)
    kspace.meta["ns"] = str(time.perf_counter_ns() - begin)
    return y
