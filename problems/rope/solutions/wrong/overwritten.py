"""Uses the new first half to compute the second."""


def custom_kernel(data):
    q, k, cosines, sines, positions = data
    c, s = cosines[positions][:, None], sines[positions][:, None]
    for tensor in (q, k):
        half = tensor.shape[2] // 2
        first, second = tensor[..., :half], tensor[..., half:].float()
        tensor[..., :half] = first.float() * c - second * s
        tensor[..., half:] = second * c + first.float() * s
    return q, k
