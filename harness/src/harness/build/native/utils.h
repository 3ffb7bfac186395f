// What a `lang: cu` problem includes as utils.h: Warpboard's own, even if the problem has one.
#ifndef WB_UTILS_H
#define WB_UTILS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

enum ExitCodes : int {
    USAGE_ERROR = 2,
    EXIT_CUDA_API = 110,
    EXIT_PIPE_FAILED = 111,
    EXIT_TEST_FAILED = 112,
    EXIT_TEST_SPEC = 113,
};

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        cudaError_t wb_code = (call);                                                              \
        if (wb_code != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(wb_code));                  \
            std::exit(EXIT_CUDA_API);                                                              \
        }                                                                                          \
    } while (0)
#endif

// Records the result of check_implementation: pass(), or fail() and the text written into it.
class TestReporter {
  public:
    void pass() { said_ = 1; }

    std::ostream &fail() {
        said_ = 2;
        return message_;
    }

    template <class A, class B>
    bool check_equal(const char *what, const A &received, const B &expected) {
        if (received == expected) return true;
        fail() << what << ": got " << received << ", expected " << expected;
        return false;
    }

    bool has_passed() const { return said_ == 1; }
    bool has_failed() const { return said_ == 2; }
    std::string message() const { return message_.str(); }

  private:
    int said_ = 0;
    std::stringstream message_;
};

#endif
