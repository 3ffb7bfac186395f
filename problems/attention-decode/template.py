from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, keys, values, lengths, output = data
    # Your kernel goes here. This one attends to the first token alone.
    group = q.shape[1] // values.shape[2]
    return output.copy_(values[:, 0].repeat_interleave(group, dim=1))
