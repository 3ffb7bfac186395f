// The interface of native submissions: Warpboard's C interface, version 1.
//
// A file in C++ or CUDA C++ includes this header and defines
//
//     int custom_kernel(const wb_tensor *inputs, int inputs_count,
//                       wb_tensor *outputs, int outputs_count,
//                       const char *scalars_json, void *stream)
//
// It reads the inputs, writes the outputs in place and returns 0, or a code of its own for an error.
// The tensors are those of the problem's data in order; output buffers are only among the outputs.
// `scalars_json` is a JSON list of the data that are not tensors, in order.
// `stream` is the cudaStream_t to work on, or NULL on a processor.
// Only the memory that `data` points to outlives the call.
#ifndef WARPBOARD_H
#define WARPBOARD_H

#include <stdint.h>

enum wb_dtype {
    WB_BOOL = 0, // a byte, 0 or 1
    WB_UINT8 = 1,
    WB_INT8 = 2,
    WB_INT16 = 3,
    WB_INT32 = 4,
    WB_INT64 = 5,
    WB_FLOAT16 = 6,  // IEEE binary16: _Float16, __half
    WB_BFLOAT16 = 7, // the upper half of a float: uint16_t, __nv_bfloat16
    WB_FLOAT32 = 8,
    WB_FLOAT64 = 9,
    WB_COMPLEX64 = 10, // two floats: real, imaginary
    WB_COMPLEX128 = 11,
    WB_FLOAT8_E4M3FN = 12,
    WB_FLOAT8_E5M2 = 13,
    WB_FLOAT8_E4M3FNUZ = 14,
    WB_FLOAT8_E5M2FNUZ = 15,
    WB_UINT16 = 16,
    WB_UINT32 = 17,
    WB_UINT64 = 18,
    WB_FLOAT8_E8M0FNU = 19,
    WB_FLOAT4_E2M1FN_X2 = 20 // two values per byte
};

typedef struct wb_tensor {
    void *data;             // the first element; on the GPU for a GPU's problem
    int32_t dtype;          // a wb_dtype
    int32_t ndim;           // 0 for a single value
    const int64_t *shape;   // ndim sizes
    const int64_t *strides; // ndim steps, in elements
} wb_tensor;

#ifdef __cplusplus
extern "C" {
#endif

int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs, int outputs_count,
                  const char *scalars_json, void *stream);

// Optional: describes the code that custom_kernel has just returned.
const char *wb_error(void);

#ifdef __cplusplus
}
#endif

static inline int64_t wb_numel(const wb_tensor *tensor) {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

// bfloat16 on a processor: exact one way, to the nearest even the other way.
static inline float wb_from_bfloat16(uint16_t value) {
    union {
        uint32_t bits;
        float number;
    } both;
    both.bits = (uint32_t)value << 16;
    return both.number;
}

static inline uint16_t wb_to_bfloat16(float value) {
    union {
        float number;
        uint32_t bits;
    } both;
    both.number = value;
    if ((both.bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((both.bits >> 16) | 0x40u); // a NaN stays one
    }
    return (uint16_t)((both.bits + 0x7fffu + ((both.bits >> 16) & 1u)) >> 16);
}

#endif
