// Kernels with a known time, and kernels that measure the device.
// No headers, so that NVRTC and nvcc build them alike.

typedef unsigned long long u64;
typedef unsigned int u32;

__device__ __forceinline__ u64 timer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ u32 multiprocessor() {
  u32 number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

__device__ __forceinline__ u64 index() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads() { return gridDim.x * (u64)blockDim.x; }

extern "C" __global__ void k_null() {}

// Spins for this many nanoseconds of the device's timer; seen = {start, end} as read by the kernel.
extern "C" __global__ void k_spin_ns(u64 ns, u64* seen) {
  u64 began = timer(), now;
  do {
    now = timer();
  } while (now - began < ns);
  if (seen && index() == 0) {
    seen[0] = began;
    seen[1] = now;
  }
}

// Spins for this many cycles of a multiprocessor; seen = {start, end, cycles}.
extern "C" __global__ void k_spin_cycles(long long cycles, u64* seen) {
  u64 began = timer();
  long long first = clock64(), now;
  do {
    now = clock64();
  } while (now - first < cycles);
  u64 ended = timer();
  if (seen && index() == 0) {
    seen[0] = began;
    seen[1] = ended;
    seen[2] = (u64)(now - first);
  }
}

// One block per multiprocessor; number 0 stores {ns, cycles}. Two of these around a region give
// its mean clock rate.
extern "C" __global__ void k_clock(u64* seen) {
  if (multiprocessor() == 0 && threadIdx.x == 0) {
    u64 ns = timer(), cycles = (u64)clock64();
    seen[0] = ns;
    seen[1] = cycles;
  }
}

// The smallest step of the device's timer in this many reads.
extern "C" __global__ void k_step(u64* seen, int reads) {
  u64 last = timer(), least = ~0ull;
  for (int i = 0; i < reads; i++) {
    u64 now = timer();
    if (now == last) continue;
    if (now - last < least) least = now - last;
    last = now;
  }
  seen[0] = least;
}

// A copy; n counts pieces of 16 bytes.
extern "C" __global__ void k_copy(uint4* __restrict__ to, const uint4* __restrict__ from, u64 n) {
  for (u64 i = index(); i < n; i += threads()) to[i] = from[i];
}

// Arithmetic: a chain, so time = cycles / clock; 1000 against 1010 is 1 %.
extern "C" __global__ void k_fma(float* out, int links) {
  float value = threadIdx.x * 1e-3f;
  for (int i = 0; i < links; i++) value = fmaf(value, 1.0000001f, 1e-7f);
  if (value == 123.456f) out[0] = value;
}

// A flush in two sweeps: writes evict everything; then reads of a second, clean memory leave
// no dirty line to be written back under whatever is timed next.
extern "C" __global__ void k_flush_write(uint4* dirty, u64 n, u32 value) {
  for (u64 i = index(); i < n; i += threads()) dirty[i] = make_uint4(value, value, value, (u32)i);
}

extern "C" __global__ void k_flush_read(const uint4* clean, u64 n, u32* sink) {
  u32 sum = 0;
  for (u64 i = index(); i < n; i += threads()) {
    uint4 piece = clean[i];
    sum ^= piece.x ^ piece.y ^ piece.z ^ piece.w;
  }
  if (sum == 0xdeadbeefu) *sink = sum;
}
