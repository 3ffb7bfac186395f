"""The library's attention with a mask, in float32."""

import torch


def custom_kernel(data):
    q, keys, values, lengths, output = data
    group = q.shape[1] // keys.shape[2]
    key, value = (
        cache.float().transpose(1, 2).repeat_interleave(group, dim=1) for cache in (keys, values)
    )
    places = torch.arange(keys.shape[1], device=q.device)
    mask = (places < lengths[:, None])[:, None, None]
    answer = torch.nn.functional.scaled_dot_product_attention(
        q.float()[:, :, None], key, value, attn_mask=mask
    )
    return output.copy_(answer[:, :, 0])
