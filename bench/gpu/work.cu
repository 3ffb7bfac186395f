// What the guests of the experiments run. No headers, so that NVRTC builds it.

typedef unsigned long long u64;
typedef unsigned int u32;

constexpr u64 LIFE_NS = 20000000000;

__device__ __forceinline__ u64 timer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ u64 index() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads() { return gridDim.x * (u64)blockDim.x; }

// Waits so long, then answers 2 x + 1.
extern "C" __global__ void w_work(const float* in, float* out, u64 n, u64 ns) {
  u64 began = timer();
  while (timer() - began < ns) {
  }
  for (u64 i = index(); i < n; i += threads()) out[i] = in[i] * 2.f + 1.f;
}

// The same answer after so many dependent steps: its time follows the clock of the device.
extern "C" __global__ void w_fma(const float* in, float* out, u64 n, u64 links) {
  float value = threadIdx.x * 1e-3f;
  for (u64 i = 0; i < links; i++) value = fmaf(value, 1.0000001f, 1e-7f);
  float extra = value == 123.456f ? 1.f : 0.f;
  for (u64 i = index(); i < n; i += threads()) out[i] = in[i] * 2.f + 1.f + extra;
}

// Stays on the device and begins its work as soon as the last word of its slice changes; a block
// counts itself when its slice is done.
extern "C" __global__ void w_peek(const volatile float* in, float* out, u64 n, u64 ns, u32* done) {
  u64 slice = n / gridDim.x, first = blockIdx.x * slice, born = timer();
  float last = in[first + slice - 1];
  __shared__ int state;
  for (;;) {
    if (threadIdx.x == 0)
      state = timer() - born > LIFE_NS ? 2 : in[first + slice - 1] != last;
    __syncthreads();
    if (state == 2) return;
    if (state == 1) {
      u64 began = timer();
      while (timer() - began < ns) {
      }
      last = in[first + slice - 1];
      for (u64 i = first + threadIdx.x; i < first + slice; i += blockDim.x)
        out[i] = in[i] * 2.f + 1.f;
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) atomicAdd(done, 1u);
    }
    __syncthreads();
  }
}

// Reads all of a memory, so that it is warm.
extern "C" __global__ void w_touch(const float* in, float* out, u64 n, u64 unused) {
  float sum = 0;
  for (u64 i = index(); i < n; i += threads()) sum += in[i];
  if (sum == 123.456f) out[0] = sum;
}

extern "C" __global__ void w_fault(const float* in, float* out, u64 n, u64 unused) {
  ((volatile float*)8)[index()] = in[0];
}
