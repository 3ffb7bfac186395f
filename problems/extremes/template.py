from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, low, high, low_at, high_at = data
    # Your kernel goes here. This one looks at the first column alone.
    low.copy_(x[:, 0])
    high.copy_(x[:, 0])
    return low, high, low_at.zero_(), high_at.zero_()
