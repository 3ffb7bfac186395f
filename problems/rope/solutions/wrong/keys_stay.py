"""Turns the queries alone."""


def custom_kernel(data):
    q, k, cosines, sines, positions = data
    c, s = cosines[positions][:, None], sines[positions][:, None]
    half = q.shape[2] // 2
    first, second = q[..., :half].float(), q[..., half:].float()
    q[..., :half] = first * c - second * s
    q[..., half:] = second * c + first * s
    return q, k
