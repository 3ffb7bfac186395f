// What a submission gets if arrays stay on the device: a view of each instead of a copy.
//
// `wb::device<input_t>` is input_t with a wb::span for each std::vector or std::array of numbers and
// for each number, which is a span of one. Tuples, pairs and arrays of such types are unchanged. A
// std::string is a span of its bytes. On a GPU a span points to the GPU's memory.
#ifndef WB_DEVICE_H
#define WB_DEVICE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace wb {

// An array that it does not own; `size` counts elements.
template <class T> struct span {
    T *data = nullptr;
    int64_t size = 0;
};

template <class T> constexpr bool is_nest = false;
template <class... T> constexpr bool is_nest<std::tuple<T...>> = true;
template <class A, class B> constexpr bool is_nest<std::pair<A, B>> = true;
template <class T> constexpr bool is_nest<std::vector<T>> = true;
template <class T, size_t N> constexpr bool is_nest<std::array<T, N>> = true;

// Any number type, including the class types of CUDA.
template <class T> struct viewed {
    static_assert(std::is_arithmetic_v<T> || (std::is_trivially_copyable_v<T> && sizeof(T) <= 2),
                  "on the device data is numbers, strings, vectors, arrays, tuples and pairs");
    using type = span<T>;
};
template <> struct viewed<std::string> { using type = span<uint8_t>; };
template <class T> struct viewed<std::vector<T>> {
    static_assert(!is_nest<T> && !std::is_same_v<T, std::string>,
                  "on the device a vector holds numbers: write a std::array of them");
    using type = span<T>;
};
template <class T, size_t N> struct viewed<std::array<T, N>> {
    using type = std::conditional_t<is_nest<T>, std::array<typename viewed<T>::type, N>, span<T>>;
};
template <class... T> struct viewed<std::tuple<T...>> {
    using type = std::tuple<typename viewed<T>::type...>;
};
template <class A, class B> struct viewed<std::pair<A, B>> {
    using type = std::pair<typename viewed<A>::type, typename viewed<B>::type>;
};

template <class T> using device = typename viewed<T>::type;

} // namespace wb

#endif
