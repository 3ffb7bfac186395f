"""Takes the point with the largest product, however long it is."""


def custom_kernel(data):
    queries, points, output = data
    return output.copy_((queries.double() @ points.double().T).argmax(1))
