"""Of two entries of a row in one column keeps the last alone."""

import torch


def custom_kernel(data):
    starts, columns, values, x, output = data
    rows = torch.repeat_interleave((starts[1:] - starts[:-1]).long())
    kept = {pair: at for at, pair in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))}
    at = torch.tensor(list(kept.values()))
    return output.zero_().index_add_(0, rows[at], values[at] * x[columns[at]])
