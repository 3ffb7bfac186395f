# id: control gpu_graph_honest
# expect: passed
# gpu: yes
# mode: benchmark
# A graph on the very memory of the input is honest: it reads what is there when it replays.
import torch

state = {}


def custom_kernel(data):
    left, right, out = data
    if out.data_ptr() not in state:
        torch.matmul(left, right, out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.matmul(left, right, out=out)
        state[out.data_ptr()] = graph
    state[out.data_ptr()].replay()
    return out
