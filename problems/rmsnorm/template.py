from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, residual, weight, output = data
    # Your kernel goes here. This one adds and does not normalise.
    residual.add_(x)
    return residual, output.copy_(residual * weight)
