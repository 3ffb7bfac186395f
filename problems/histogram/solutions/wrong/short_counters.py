"""Counters of eight bits, which come round."""

import torch


def custom_kernel(data):
    values, output = data
    return output.copy_(torch.bincount(values, minlength=256) & 255)
