#!POPCORN leaderboard kv-gather
"""All pages at once, then zeros behind the lengths."""

import torch


def custom_kernel(data):
    pool, tables, lengths, output = data
    _, tokens, _ = output.shape
    torch.index_select(pool, 0, tables.view(-1), out=output.view(-1, *pool.shape[1:]))
    places = torch.arange(tokens, device=output.device)
    return output.masked_fill_((places >= lengths[:, None])[:, :, None], 0)
