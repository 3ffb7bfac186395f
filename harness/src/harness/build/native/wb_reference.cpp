// The author's functions of a `lang: cu` problem, called by the supervisor.
#include "task.h"
#include "utils.h"
#include "wb_values.h"

#include "reference.cuh"

#include <memory>
#include <optional>

// Not in the unnamed namespace: nvcc would not export a function that has this type.
struct wbr_values {
    std::vector<wb::leaf> leaves;
};

namespace {
thread_local std::string wb_said;

template <class T> T parsed(const char *text) {
    using plain = std::remove_cvref_t<T>;
    if constexpr (std::is_same_v<plain, std::string>) return text;
    else if constexpr (std::is_same_v<plain, bool>) return std::string(text) == "1";
    else if constexpr (std::is_floating_point_v<plain>) return (plain)std::stod(text);
    else {
        long long number = std::stoll(text);
        if ((long long)(plain)number != number) throw std::out_of_range("the number is too large");
        return (plain)number;
    }
}

template <class R, class... A, size_t... I>
R called(R (*function)(A...), const char *const *texts, std::index_sequence<I...>) {
    static_assert(sizeof...(A) == std::tuple_size_v<std::remove_cvref_t<decltype(ArgumentNames)>>,
                  "ArgumentNames names each parameter of generate_input");
    return function(parsed<A>(texts[I])...);
}

template <class R, class... A> R called(R (*function)(A...), const char *const *texts) {
    return called(function, texts, std::index_sequence_for<A...>{});
}

template <class Make> wbr_values *kept(Make make) {
    try {
        auto found = std::make_unique<wbr_values>();
        wb::flatten(make(), found->leaves);
        return found.release();
    } catch (const std::exception &error) {
        wb_said = error.what();
        return nullptr;
    }
}
} // namespace

extern "C" {
const char *wbr_said() { return wb_said.c_str(); }

wbr_values *wbr_generate(const char *const *texts) {
    return kept([&] { return input_t(called(generate_input, texts)); });
}

wbr_values *wbr_answer(const wb_tensor *inputs, int count) {
    return kept([&] { return output_t(ref_kernel(wb::rebuilt<input_t>(inputs, count))); });
}

// 0: right, 1: wrong, 2: the problem's own fault; wbr_said() returns the reason.
int wbr_check(const wb_tensor *inputs, int inputs_count, const wb_tensor *outputs, int count) {
    try {
        TestReporter reporter;
        std::optional<output_t> answer;
        try {
            answer.emplace(wb::rebuilt<output_t>(outputs, count));
        } catch (const std::exception &error) {
            wb_said = std::string("the answer cannot be read: ") + error.what();
            return 1;
        }
        check_implementation(reporter, wb::rebuilt<input_t>(inputs, inputs_count),
                             std::move(*answer));
        wb_said = reporter.message();
        if (reporter.has_passed()) return 0;
        if (reporter.has_failed()) return 1;
        wb_said = "it said neither pass() nor fail()";
    } catch (const std::exception &error) {
        wb_said = error.what();
    }
    return 2;
}

int wbr_count(const wbr_values *found) { return (int)found->leaves.size(); }

const void *wbr_leaf(const wbr_values *found, int index, int *dtype, int64_t *size) {
    const wb::leaf &one = found->leaves[index];
    *dtype = one.dtype;
    *size = one.size;
    return one.bytes.data();
}

void wbr_free(wbr_values *found) { delete found; }

int wbr_names(const char **names, int most) {
    int count = 0;
    for (const char *name : ArgumentNames) {
        if (count == most) break;
        names[count++] = name;
    }
    return count;
}
}
