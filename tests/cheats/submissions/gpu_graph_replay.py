# id: T18 gpu_graph_replay
# expect: wrong_answer
# gpu: yes
# A graph captured on copies of an earlier input: it replays an old answer.
import torch

state = {}


def custom_kernel(data):
    left, right, out = data
    if out.data_ptr() not in state:
        kept = left.clone(), right.clone()
        torch.matmul(*kept, out=out)  # cuBLAS cannot be opened during a capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.matmul(*kept, out=out)
        state[out.data_ptr()] = graph, kept
    state[out.data_ptr()][0].replay()
    return out
