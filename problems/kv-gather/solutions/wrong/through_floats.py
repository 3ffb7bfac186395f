"""Takes the bits for bfloat16 and makes all that are no number the same."""

import torch


def custom_kernel(data):
    pool, tables, lengths, output = data
    floats = pool.view(torch.bfloat16).nan_to_num().view(torch.int16)
    output.copy_(floats[tables.view(-1)].view(output.shape))
    places = torch.arange(output.shape[1], device=output.device)
    return output.masked_fill_((places >= lengths[:, None])[:, :, None], 0)
