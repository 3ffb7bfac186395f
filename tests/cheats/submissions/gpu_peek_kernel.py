# id: T15 gpu_peek_kernel
# expect: protocol wrong_answer late_write timed_out passed
# gpu: yes
# mode: benchmark
# check: no_gain
# A kernel that stays on the device and begins when the input changes, before the gate opens.
import torch

SOURCE = """
extern "C" __global__ void peek(const volatile float* left, const volatile float* right,
                                float* out, int n, unsigned* done) {
  float last = right[0];
  long long began = clock64();
  while (clock64() - began < 4000000000LL) {
    if (right[0] == last) continue;
    last = right[0];
    for (int at = threadIdx.x; at < n * n; at += blockDim.x) {
      float sum = 0;
      for (int k = 0; k < n; k++) sum += left[at / n * n + k] * right[k * n + at % n];
      out[at] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(done, 1u);
    __syncthreads();
  }
}
"""
side = torch.cuda.Stream()
state = {}


def custom_kernel(data):
    left, right, out = data
    if right.data_ptr() != state.get("at"):
        state["at"] = right.data_ptr()
        kernel = torch.cuda._compile_kernel(SOURCE, "peek")
        state["done"] = torch.zeros(1, dtype=torch.int32, device="cuda")
        with torch.cuda.stream(side):
            kernel((1, 1, 1), (256, 1, 1), [left, right, out, len(left), state["done"]])
    return out
