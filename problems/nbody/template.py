from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    bodies, output = data
    # Your kernel goes here. This one lets everything fall towards the middle.
    return output.copy_(-bodies[:, :3])
