// Converts C++ values to flat tensors and back, for data and answers of `lang: cu` problems.
//
// A std::vector or std::array of numbers is one tensor, a number or a std::string is one too. A
// std::tuple, std::pair, std::array, std::vector or plain struct of such types is all of its parts
// in order; a vector of them begins with a tensor that holds its length.
#ifndef WB_VALUES_H
#define WB_VALUES_H

#include "warpboard.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

namespace wb {

struct leaf {
    int32_t dtype;
    std::vector<char> bytes;
    int64_t size; // of elements
};

template <class T> constexpr int code() {
    if constexpr (std::is_same_v<T, bool>) return WB_BOOL;
    else if constexpr (std::is_same_v<T, float>) return WB_FLOAT32;
    else if constexpr (std::is_same_v<T, double>) return WB_FLOAT64;
#ifdef __CUDACC__
    else if constexpr (std::is_same_v<T, __half>) return WB_FLOAT16;
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return WB_BFLOAT16;
#endif
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
        return std::is_signed_v<T> ? WB_INT8 : WB_UINT8;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
        return std::is_signed_v<T> ? WB_INT16 : WB_UINT16;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
        return std::is_signed_v<T> ? WB_INT32 : WB_UINT32;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
        return std::is_signed_v<T> ? WB_INT64 : WB_UINT64;
    else return -1;
}

template <class T> constexpr bool is_number = code<T>() >= 0;

template <class T> struct as_list : std::false_type {};
template <class T> struct as_list<std::vector<T>> : std::true_type { using item = T; };
template <class T, size_t N> struct as_list<std::array<T, N>> : std::true_type { using item = T; };
template <class T> struct as_vector : std::false_type {};
template <class T> struct as_vector<std::vector<T>> : std::true_type {};
template <class T> struct as_tuple : std::false_type {};
template <class... T> struct as_tuple<std::tuple<T...>> : std::true_type {};
template <class A, class B> struct as_tuple<std::pair<A, B>> : std::true_type {};

struct anything { template <class T> operator T() const; };

template <class T, class... Fields> constexpr int fields() {
    if constexpr (!std::is_constructible_v<T> && sizeof...(Fields) == 0) return 0;
    else if constexpr (requires { T{Fields{}..., anything{}}; })
        return fields<T, Fields..., anything>();
    else return sizeof...(Fields);
}

// Calls `visit` on each part of a plain struct with at most eight parts.
template <class T, class Visit> void each_field(T &value, Visit &&visit) {
    constexpr int count = fields<std::remove_const_t<T>>();
    static_assert(count >= 1 && count <= 8, "a struct of data has one to eight fields");
    auto all = [&](auto &...parts) { (visit(parts), ...); };
    if constexpr (count == 1) { auto &[a] = value; all(a); }
    else if constexpr (count == 2) { auto &[a, b] = value; all(a, b); }
    else if constexpr (count == 3) { auto &[a, b, c] = value; all(a, b, c); }
    else if constexpr (count == 4) { auto &[a, b, c, d] = value; all(a, b, c, d); }
    else if constexpr (count == 5) { auto &[a, b, c, d, e] = value; all(a, b, c, d, e); }
    else if constexpr (count == 6) { auto &[a, b, c, d, e, f] = value; all(a, b, c, d, e, f); }
    else if constexpr (count == 7) {
        auto &[a, b, c, d, e, f, g] = value; all(a, b, c, d, e, f, g);
    } else { auto &[a, b, c, d, e, f, g, h] = value; all(a, b, c, d, e, f, g, h); }
}

inline void put(std::vector<leaf> &out, int dtype, const void *data, size_t size, size_t count) {
    const char *bytes = static_cast<const char *>(data);
    out.push_back({dtype, std::vector<char>(bytes, bytes + size * count), (int64_t)count});
}

// Appends the tensors of a value.
template <class T> void flatten(const T &value, std::vector<leaf> &out) {
    if constexpr (is_number<T>) {
        put(out, code<T>(), &value, sizeof(T), 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
        put(out, WB_UINT8, value.data(), 1, value.size());
    } else if constexpr (as_list<T>::value) {
        using item = typename as_list<T>::item;
        static_assert(!std::is_same_v<T, std::vector<bool>>, "write std::vector<uint8_t>");
        if constexpr (is_number<item>) {
            put(out, code<item>(), value.data(), sizeof(item), value.size());
        } else {
            if constexpr (as_vector<T>::value) flatten((int64_t)value.size(), out);
            for (const item &one : value) flatten(one, out);
        }
    } else if constexpr (as_tuple<T>::value) {
        std::apply([&](const auto &...parts) { (flatten(parts, out), ...); }, value);
    } else {
        static_assert(std::is_aggregate_v<T>, "data is numbers, strings, vectors, tuples, structs");
        each_field(value, [&](const auto &part) { flatten(part, out); });
    }
}

// The tensors of a value, from memory of the host or of a GPU.
struct reader {
    const wb_tensor *tensors;
    int count;
    int at = 0;

    const wb_tensor &next(int dtype) {
        if (at == count) throw std::runtime_error("the data has fewer tensors than its type");
        const wb_tensor &one = tensors[at++];
        if (one.dtype != dtype) throw std::runtime_error("a tensor is of another dtype");
        return one;
    }
};

inline void copy(void *to, const void *from, size_t bytes) {
#ifdef __CUDACC__
    if (bytes && cudaMemcpy(to, from, bytes, cudaMemcpyDefault) != cudaSuccess)
        throw std::runtime_error("cudaMemcpy failed");
#else
    if (bytes) std::memcpy(to, from, bytes);
#endif
}

// Fills a value from tensors.
template <class T> void rebuild(T &value, reader &in) {
    if constexpr (is_number<T>) {
        copy(&value, in.next(code<T>()).data, sizeof(T));
    } else if constexpr (std::is_same_v<T, std::string>) {
        const wb_tensor &one = in.next(WB_UINT8);
        value.resize(wb_numel(&one));
        copy(value.data(), one.data, value.size());
    } else if constexpr (as_list<T>::value) {
        using item = typename as_list<T>::item;
        if constexpr (is_number<item>) {
            const wb_tensor &one = in.next(code<item>());
            if constexpr (as_vector<T>::value) value.resize(wb_numel(&one));
            if ((int64_t)value.size() != wb_numel(&one)) throw std::runtime_error("another size");
            copy(value.data(), one.data, value.size() * sizeof(item));
        } else {
            if constexpr (as_vector<T>::value) {
                int64_t count = 0;
                rebuild(count, in);
                // In an answer, the submission has chosen it.
                if (count < 0 || count > in.count - in.at)
                    throw std::runtime_error("a vector of more parts than there are tensors");
                value.resize(count);
            }
            for (item &one : value) rebuild(one, in);
        }
    } else if constexpr (as_tuple<T>::value) {
        std::apply([&](auto &...parts) { (rebuild(parts, in), ...); }, value);
    } else {
        each_field(value, [&](auto &part) { rebuild(part, in); });
    }
}

template <class T> T rebuilt(const wb_tensor *tensors, int count) {
    T value{};
    reader in{tensors, count};
    rebuild(value, in);
    if (in.at != count) throw std::runtime_error("the data has more tensors than its type");
    return value;
}

} // namespace wb

#endif
