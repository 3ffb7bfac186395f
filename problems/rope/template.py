from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, k, cosines, sines, positions = data
    # Your kernel goes here. This one turns nothing.
    return q, k
