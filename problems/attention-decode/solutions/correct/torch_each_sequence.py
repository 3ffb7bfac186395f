#!POPCORN leaderboard attention-decode
"""A sequence after the other, in float32."""

import torch


def custom_kernel(data):
    q, keys, values, lengths, output = data
    kv_heads, dim = keys.shape[2:]
    for sequence, length in enumerate(lengths.tolist()):
        query = q[sequence].float().view(kv_heads, -1, dim)
        key = keys[sequence, :length].float().permute(1, 2, 0)
        value = values[sequence, :length].float().transpose(0, 1)
        weights = torch.softmax(query @ key / dim**0.5, dim=2)
        output[sequence] = (weights @ value).view(-1, dim)
    return output
