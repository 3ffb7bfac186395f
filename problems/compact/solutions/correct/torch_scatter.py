#!POPCORN leaderboard compact
"""A running sum says where each value goes; those to be dropped go to one place behind the end."""

import torch


def custom_kernel(data):
    x, threshold, kept, count = data
    is_kept = x >= threshold
    places = torch.cumsum(is_kept, 0)
    target = torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)
    target.scatter_(0, torch.where(is_kept, places - 1, x.numel()), x)
    count.copy_(places[-1:])
    return kept.copy_(target[:-1]), count
