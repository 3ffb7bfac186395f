"""All points through all steps; who has left is set aside."""

import torch


def custom_kernel(data):
    points, steps, output = data
    a, b = points.long().unbind(1)
    real, imaginary = torch.zeros_like(a), torch.zeros_like(b)
    here = torch.arange(len(points), device=points.device)
    output.fill_(steps)
    for step in range(steps):
        has_left = real * real + imaginary * imaginary > 4 << 48
        if bool(has_left.any()):
            output[here[has_left]] = step
            stays = ~has_left
            here, a, b = here[stays], a[stays], b[stays]
            real, imaginary = real[stays], imaginary[stays]
        product = real * imaginary
        real = ((real * real - imaginary * imaginary) >> 24) + a
        imaginary = (product >> 23) + b
    return output
