"""Overflows where the scores are large."""


def custom_kernel(data):
    q, keys, values, lengths, output = data
    kv_heads, dim = keys.shape[2:]
    for sequence, length in enumerate(lengths.tolist()):
        query = q[sequence].float().view(kv_heads, -1, dim)
        key = keys[sequence, :length].float().permute(1, 2, 0)
        value = values[sequence, :length].float().transpose(0, 1)
        powers = (query @ key / dim**0.5).exp()
        output[sequence] = (powers @ value / powers.sum(2, keepdim=True)).view(-1, dim)
    return output
