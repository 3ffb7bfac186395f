// The referee's side of the gate: stamps, the blanket, and a witness of the answer.
// No headers, so that NVRTC and nvcc build them alike.
//
// The mailbox is shared with the worker: word 0 opens the worker's gate, word 16 reports done.

typedef unsigned long long u64;
typedef unsigned int u32;

constexpr u64 MEET_NS = 200000;        // how long the blocks of a blanket wait for each other
constexpr u64 STUCK_NS = 1000000000;   // nothing here waits longer
enum State { ARRIVED, DECISION, COPIED, WRITTEN, READ, REVEALED, STAMPED, LATE };
enum Decision { OPEN, ALONE, APART };
enum Mailbox { REVEAL = 0, DONE = 16 };

__device__ __forceinline__ u64 timer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ u64 index() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads() { return gridDim.x * (u64)blockDim.x; }
__device__ __forceinline__ u32 seen(const u32* word) { return *(const volatile u32*)word; }

extern "C" __global__ void k_stamp(u64* when) { *when = timer(); }

// All blocks are resident when this is called, so all will arrive.
__device__ void meet(u32* count) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(count, 1u);
    u64 since = timer();
    while (seen(count) < gridDim.x && timer() - since < STUCK_NS) {
    }
    __threadfence();
  }
  __syncthreads();
}

// One decision for all blocks: they have met, or the first one to time out decides against it.
__device__ bool is_alone(u32* state) {
  __shared__ u32 decision;
  if (threadIdx.x == 0) {
    atomicAdd(&state[ARRIVED], 1u);
    u64 since = timer();
    while ((decision = seen(&state[DECISION])) == OPEN) {
      if (seen(&state[ARRIVED]) >= gridDim.x) atomicCAS(&state[DECISION], OPEN, ALONE);
      else if (timer() - since > MEET_NS) atomicCAS(&state[DECISION], OPEN, APART);
    }
  }
  __syncthreads();
  return decision == ALONE;
}

// One block per multiprocessor, each with all of its shared memory: they can meet only if no other
// block is resident anywhere, and then none can become resident until they end. So the inputs are
// copied, the caches flushed and the gate opened while nothing else runs. If they do not meet,
// nothing is revealed, and `done` is written in the worker's place so that the queue drains.
extern "C" __global__ void __launch_bounds__(1024, 1)
k_blanket(const uint4* staged, uint4* shown, u64 shown_n, uint4* dirty, const uint4* clean,
          u64 flush_n, u32* state, u32* mailbox, u32 reveal, u32 done, u64* when) {
  if (!is_alone(state)) {
    if (threadIdx.x == 0) *(volatile u32*)&mailbox[DONE] = done;
    return;
  }
  for (u64 i = index(); i < shown_n; i += threads()) shown[i] = staged[i];
  __threadfence_system();
  meet(&state[COPIED]);
  for (u64 i = index(); i < flush_n; i += threads()) dirty[i] = make_uint4(reveal, 0, 0, (u32)i);
  meet(&state[WRITTEN]);
  u32 sum = 0;
  for (u64 i = index(); i < flush_n; i += threads()) {
    uint4 piece = clean[i];
    sum ^= piece.x ^ piece.y ^ piece.z ^ piece.w;
  }
  if (sum == 0xdeadbeefu) *(volatile u32*)&state[LATE + 1] = sum;
  meet(&state[READ]);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    *when = timer();
    __threadfence_system();
    *(volatile u32*)&mailbox[REVEAL] = reveal;
    __threadfence_system();
    atomicExch(&state[REVEALED], 1u);
  }
  u64 since = timer();
  while (!seen(&state[REVEALED]) && timer() - since < STUCK_NS) {
  }
}

// The position of the i-th piece of the witness; only the referee knows the seed.
__device__ __forceinline__ u64 place(u64 i, u64 n, u32 count, u64 seed) {
  if (n <= count) return i;
  u64 x = i * 0x9E3779B97F4A7C15ull + seed;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return (x ^ (x >> 31)) % n;
}

// Keeps pieces from random places of the answer and only then stamps: later writes are detected,
// although the whole snapshot is taken after the stamp.
extern "C" __global__ void k_witness(const uint4* answer, u64 n, u64 seed, uint4* kept, u32 count,
                                     u32* state, u64* when) {
  u64 i = index();
  if (i < count && i < n) {
    const volatile u32* piece = (const volatile u32*)&answer[place(i, n, count, seed)];
    kept[i] = make_uint4(piece[0], piece[1], piece[2], piece[3]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&state[STAMPED], 1u) == gridDim.x - 1) *when = timer();
}

// After the snapshot: counts the kept pieces that have changed since.
extern "C" __global__ void k_recall(const uint4* answer, u64 n, u64 seed, const uint4* kept,
                                    u32 count, u32* state) {
  u64 i = index();
  if (i >= count || i >= n) return;
  uint4 now = answer[place(i, n, count, seed)], then = kept[i];
  bool same = now.x == then.x && now.y == then.y && now.z == then.z && now.w == then.w;
  if (!same) atomicAdd(&state[LATE], 1u);
}
