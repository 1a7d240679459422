/* SPDX-License-Identifier: Apache-2.0
 * The C header, compiled as C11 and linked only with the shared library: every function that it
 * declares exists, and a chain is built and evaluated on the host. */
#include <stdio.h>
#include <string.h>

#include "catenary/catenary.h"

static int failures = 0;

#define EXPECT(condition)                                                                   \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%d: %s (last error: %s)\n", __LINE__, #condition, ctn_last_error()); \
      ++failures;                                                                           \
    }                                                                                       \
  } while (0)

/* The address of a function makes the linker resolve it. */
typedef void (*any_function)(void);
static const any_function exported[] = {
    (any_function)ctn_version,
    (any_function)ctn_status_name,
    (any_function)ctn_last_error,
    (any_function)ctn_last_error_line,
    (any_function)ctn_last_error_column,
    (any_function)ctn_string_free,
    (any_function)ctn_set_log,
    (any_function)ctn_reset_log,
    (any_function)ctn_chain_parse,
    (any_function)ctn_chain_create,
    (any_function)ctn_chain_destroy,
    (any_function)ctn_chain_print,
    (any_function)ctn_chain_verify,
    (any_function)ctn_chain_symbol,
    (any_function)ctn_chain_word,
    (any_function)ctn_chain_parameter,
    (any_function)ctn_chain_constant,
    (any_function)ctn_chain_contract,
    (any_function)ctn_chain_dequant,
    (any_function)ctn_chain_elementwise,
    (any_function)ctn_chain_elementwise_by_group,
    (any_function)ctn_chain_sum_by_group,
    (any_function)ctn_chain_sum,
    (any_function)ctn_chain_reduce,
    (any_function)ctn_chain_cast,
    (any_function)ctn_packed_bytes,
    (any_function)ctn_repack,
    (any_function)ctn_chain_return,
    (any_function)ctn_engine_create,
    (any_function)ctn_engine_destroy,
    (any_function)ctn_engine_compile,
    (any_function)ctn_engine_load,
    (any_function)ctn_engine_prepare,
    (any_function)ctn_compiled_destroy,
    (any_function)ctn_compiled_explain,
    (any_function)ctn_compiled_kernel_count,
    (any_function)ctn_compiled_kernel,
    (any_function)ctn_compiled_kernel_source,
    (any_function)ctn_executable_launch,
    (any_function)ctn_executable_workspace_bytes,
    (any_function)ctn_executable_compiled,
    (any_function)ctn_executable_destroy,
    (any_function)ctn_device_count,
    (any_function)ctn_device_alloc,
    (any_function)ctn_device_free,
    (any_function)ctn_device_upload,
    (any_function)ctn_device_download,
    (any_function)ctn_stream_create,
    (any_function)ctn_stream_synchronize,
    (any_function)ctn_stream_destroy,
    (any_function)ctn_pack_open,
    (any_function)ctn_pack_open_memory,
    (any_function)ctn_pack_close,
    (any_function)ctn_pack_info,
    (any_function)ctn_pack_entry_count,
    (any_function)ctn_pack_entry,
    (any_function)ctn_pack_compiled,
    (any_function)ctn_pack_find,
    (any_function)ctn_engine_add_pack,
    (any_function)ctn_engine_missed,
    (any_function)ctn_pack_writer_create,
    (any_function)ctn_pack_writer_destroy,
    (any_function)ctn_pack_writer_add,
    (any_function)ctn_pack_writer_finish,
    (any_function)ctn_torch_register,
    (any_function)ctn_torch_direct,
    (any_function)ctn_torch_add_chain,
    (any_function)ctn_torch_add_pack,
    (any_function)ctn_torch_describe,
    (any_function)ctn_torch_report,
    (any_function)ctn_torch_use_engine,
    (any_function)ctn_torch_set_host,
    (any_function)ctn_torch_set_pdl,
    (any_function)ctn_torch_bind,
    (any_function)ctn_torch_binding_output,
    (any_function)ctn_torch_binding_copied,
    (any_function)ctn_torch_binding_workspace,
    (any_function)ctn_torch_launch,
    (any_function)ctn_compiled_save,
    (any_function)ctn_compiled_open,
    (any_function)ctn_reference_run,
    (any_function)ctn_chain_operands,
    (any_function)ctn_operands_destroy,
    (any_function)ctn_operands_count,
    (any_function)ctn_operands_get,
    (any_function)ctn_operands_symbol,
    (any_function)ctn_chain_digest,
    (any_function)ctn_chain_factors,
    (any_function)ctn_chain_shard,
    (any_function)ctn_compiled_chain,
    (any_function)ctn_engine_explain,
    (any_function)ctn_nvrtc_add_folder,
    (any_function)ctn_device_use_simulator,
    (any_function)ctn_device_is_simulator,
    (any_function)ctn_chain_gradient,
    (any_function)ctn_gradient_destroy,
    (any_function)ctn_gradient_count,
    (any_function)ctn_gradient_saved_bytes,
    (any_function)ctn_gradient_chain,
    (any_function)ctn_gradient_operand_count,
    (any_function)ctn_gradient_binding,
};

/* y[2, 2] = relu(x[2, 3] w[2, 3]^T + 1). */
static ctn_chain* build(void) {
  const int64_t dims[] = {2, 3};
  ctn_chain* chain = NULL;
  ctn_value x = 0, w = 0, u = 0, one = 0, sum = 0, y = 0;
  ctn_parameter parameter = {.struct_size = sizeof parameter,
                             .name = "x",
                             .role = CTN_INPUT,
                             .dtype = CTN_F32,
                             .rank = 2,
                             .dims = dims};
  EXPECT(ctn_chain_create("layer", &chain) == CTN_OK);
  EXPECT(ctn_chain_parameter(chain, &parameter, &x) == CTN_OK);
  parameter.name = "w";
  parameter.role = CTN_WEIGHT;
  EXPECT(ctn_chain_parameter(chain, &parameter, &w) == CTN_OK);
  EXPECT(ctn_chain_contract(chain, "mk,nk->mn", x, w, 0, NULL, "u", &u) == CTN_OK);
  EXPECT(ctn_chain_constant(chain, 1.0, "one", &one) == CTN_OK);
  const ctn_use terms[] = {{u, NULL}, {one, NULL}};
  EXPECT(ctn_chain_elementwise(chain, "add", terms, 2, NULL, 0, NULL, &sum) == CTN_OK);
  const ctn_use operand[] = {{sum, NULL}};
  EXPECT(ctn_chain_elementwise(chain, "relu", operand, 1, NULL, 0, "y", &y) == CTN_OK);
  const ctn_output output = {.struct_size = sizeof output, .value = y, .dtype = CTN_F32};
  EXPECT(ctn_chain_return(chain, &output) == CTN_OK);
  return chain;
}

static void test_reference(void) {
  float x[] = {1, 2, 3, -1, -2, -3};
  float w[] = {1, 0, 1, 2, 2, 2};
  float y[4] = {0};
  void* const tensors[] = {x, w, y};
  ctn_chain* chain = build();
  char* text = NULL;
  EXPECT(ctn_chain_verify(chain) == CTN_OK);
  EXPECT(ctn_chain_print(chain, &text) == CTN_OK);
  EXPECT(text != NULL && strstr(text, "mk,nk->mn") != NULL);
  ctn_string_free(text);
  const ctn_reference_args args = {
      .struct_size = sizeof args, .tensors = tensors, .num_tensors = 3};
  EXPECT(ctn_reference_run(chain, &args) == CTN_OK);
  EXPECT(y[0] == 5 && y[1] == 13 && y[2] == 0 && y[3] == 0);
  ctn_chain_destroy(chain);
}

static void test_gradient(void) {
  ctn_chain* chain = build();
  ctn_chain* backward = NULL;
  ctn_gradient* gradient = NULL;
  ctn_pass pass = CTN_FORWARD;
  size_t count = 0;
  ctn_gradient_operand operand = {.struct_size = sizeof operand};
  EXPECT(ctn_chain_gradient(chain, NULL, &gradient) == CTN_OK);
  EXPECT(ctn_gradient_count(gradient, &count) == CTN_OK && count == 3);
  EXPECT(ctn_gradient_chain(gradient, 1, &backward, &pass) == CTN_OK && pass == CTN_DGRAD);
  EXPECT(ctn_gradient_operand_count(gradient, 1, &count) == CTN_OK && count >= 2);
  EXPECT(ctn_gradient_binding(gradient, 1, 0, &operand) == CTN_OK);
  EXPECT(operand.kind == CTN_GRADIENT_WEIGHT && operand.index == 1 && operand.bytes == 24);
  EXPECT(ctn_gradient_chain(gradient, 3, &backward, &pass) == CTN_INVALID_ARGUMENT);
  ctn_chain_destroy(backward);
  ctn_gradient_destroy(gradient);
  ctn_chain_destroy(chain);
}

static void test_errors(void) {
  ctn_chain* chain = NULL;
  ctn_engine* engine = NULL;
  EXPECT(ctn_chain_parse("chain", 5, &chain) == CTN_PARSE);
  EXPECT(chain == NULL);
  EXPECT(ctn_last_error_line() == 1 && ctn_last_error()[0] != '\0');
  EXPECT(strcmp(ctn_status_name(CTN_PARSE), "parse") == 0);
  EXPECT(ctn_chain_create(NULL, &chain) == CTN_INVALID_ARGUMENT);
  EXPECT(strstr(ctn_last_error(), "name") != NULL && ctn_last_error_line() == 0);
  EXPECT(ctn_engine_create(NULL, &engine) == CTN_OK);
  EXPECT(ctn_engine_compile(engine, NULL, "h200", NULL) == CTN_INVALID_ARGUMENT);
  ctn_engine_destroy(engine);
}

int main(void) {
  for (size_t i = 0; i < sizeof exported / sizeof exported[0]; ++i) EXPECT(exported[i] != NULL);
  EXPECT(strlen(ctn_version()) >= 5);
  test_reference();
  test_gradient();
  test_errors();
  return failures == 0 ? 0 : 1;
}
