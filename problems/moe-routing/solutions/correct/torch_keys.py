#!POPCORN leaderboard moe-routing
"""A logit and its expert in one whole number, of which the library finds the largest."""

import torch


def custom_kernel(data):
    logits, experts, weights, counts, order = data
    bits = logits.view(torch.int32).long()
    # Floats order as whole numbers once the negative ones are turned round; -0 is made 0 first.
    bits = torch.where(logits == 0, 0, bits)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    places = torch.arange(logits.shape[1], device=logits.device)
    keys = (ordered << 16) | (0xFFFF - places)
    found = 0xFFFF - (torch.topk(keys, experts.shape[1], dim=1).values & 0xFFFF)
    experts.copy_(found)
    torch.softmax(logits.gather(1, found), dim=1, out=weights)
    flat = found.flatten()
    counts.copy_(torch.bincount(flat, minlength=logits.shape[1]))
    work = torch.arange(len(flat), device=logits.device)
    keys = (flat * len(flat) + work).sort().values
    return experts, weights, counts, order.copy_(keys % len(flat))
