from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, x, y = data
    # Your kernel goes here. This one forgets to scale.
    return y.add_(x)
