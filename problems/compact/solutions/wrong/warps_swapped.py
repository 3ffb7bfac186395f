"""Writes the upper half of a block of 64 before its lower half, as unordered counters may."""

import torch


def custom_kernel(data):
    x, threshold, kept, count = data
    pieces = []
    for first in range(0, x.numel(), 64):
        block = x[first : first + 64]
        pieces += [block[32:], block[:32]]
    mixed = torch.cat(pieces)
    chosen = mixed[mixed >= threshold]
    kept.zero_()
    kept[: len(chosen)] = chosen
    return kept, count.fill_(len(chosen))
