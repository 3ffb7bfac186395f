"""In float32, rounded at the end."""


def custom_kernel(data):
    q, k, cosines, sines, positions = data
    c, s = cosines[positions][:, None], sines[positions][:, None]
    for tensor in (q, k):
        half = tensor.shape[2] // 2
        first, second = tensor[..., :half].float(), tensor[..., half:].float()
        tensor[..., :half] = first * c - second * s
        tensor[..., half:] = second * c + first * s
    return q, k
