// A submission to a `lang: cu` problem, behind the C interface that every native submission has.
#include "task.h"
#include "wb_values.h"

#include WB_SUBMISSION

namespace {
std::string wb_said;

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
} // namespace

extern "C" const char *wb_error(void) { return wb_said.c_str(); }

extern "C" int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs,
                             int outputs_count, const char *, void *) {
    try {
        return wb_stored(custom_kernel(wb::rebuilt<input_t>(inputs, inputs_count)), outputs,
                         outputs_count);
    } catch (const std::exception &error) {
        wb_said = error.what();
        return 2;
    }
}
