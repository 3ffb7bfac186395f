// A submission to a `lang: cu` problem, behind the C interface of every native submission.
#include "task.h"
#include "wb_device.h"
#include "wb_values.h"

#include WB_SUBMISSION

// The reference of a problem is run by this driver too, under its own name.
#ifndef WB_KERNEL
#define WB_KERNEL custom_kernel
#endif

#ifdef WB_DEVICE_ARRAYS
namespace wb {
template <class T> void view(span<T> &value, reader &in) {
    const wb_tensor &one = in.next(code<T>());
    value.data = static_cast<T *>(one.data);
    value.size = wb_numel(&one);
}

template <class T, size_t N> void view(std::array<T, N> &value, reader &in) {
    for (T &one : value) view(one, in);
}

template <class A, class B> void view(std::pair<A, B> &value, reader &in) {
    view(value.first, in);
    view(value.second, in);
}

template <class... T> void view(std::tuple<T...> &value, reader &in) {
    std::apply([&](auto &...parts) { (view(parts, in), ...); }, value);
}

template <class T> device<T> viewed_from(const wb_tensor *tensors, int count) {
    device<T> value{};
    reader in{tensors, count};
    view(value, in);
    if (in.at != count) throw std::runtime_error("the data has more tensors than its type");
    return value;
}
} // namespace wb
#endif

namespace {
std::string wb_said;

#ifndef WB_DEVICE_ARRAYS
int wb_stored(const output_t &answer, wb_tensor *outputs, int count) {
    std::vector<wb::leaf> leaves;
    wb::flatten(answer, leaves);
    if ((int)leaves.size() != count) {
        wb_said = "the answer has " + std::to_string(leaves.size()) + " parts, expected " +
                  std::to_string(count);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        if (leaves[i].size != wb_numel(&outputs[i])) {
            wb_said = "part " + std::to_string(i) + " of the answer has " +
                      std::to_string(leaves[i].size) + " values, expected " +
                      std::to_string(wb_numel(&outputs[i]));
            return 1;
        }
        wb::copy(outputs[i].data, leaves[i].bytes.data(), leaves[i].bytes.size());
    }
    return 0;
}
#endif
} // namespace

extern "C" const char *wb_error(void) { return wb_said.c_str(); }

extern "C" int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs,
                             int outputs_count, const char *, void *) {
    try {
#ifdef WB_DEVICE_ARRAYS
        custom_kernel(wb::viewed_from<input_t>(inputs, inputs_count),
                      wb::viewed_from<output_t>(outputs, outputs_count));
        return 0;
#else
        return wb_stored(output_t(WB_KERNEL(wb::rebuilt<input_t>(inputs, inputs_count))), outputs,
                         outputs_count);
#endif
    } catch (const std::exception &error) {
        wb_said = error.what();
        return 2;
    }
}
