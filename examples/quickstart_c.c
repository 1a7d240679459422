/* SPDX-License-Identifier: Apache-2.0
 * quickstart.cpp in C11: silu(x * w^T + b) in one kernel, the chain as text. Every call returns a
 * status; ctn_last_error() has the sentence. */
#include <catenary/catenary.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kChain =
    "chain layer(input x: f32[64, 128], weight w: f32[256, 128], weight b: f32[256]) {\n"
    "  h = contract \"mk,nk->mn\"(x, w)\n"
    "  y = silu(add(h, b))\n"
    "  return y: f32\n"
    "}\n";

static void check(ctn_status status, const char* call) {
  if (status == CTN_OK) return;
  fprintf(stderr, "%s: %s [%s]\n", call, ctn_last_error(), ctn_status_name(status));
  exit(1);
}
#define CHECK(call) check((call), #call)

/* Device memory with `count` numbers of the same value. */
static void* filled(size_t count, float value) {
  float* numbers = malloc(count * sizeof *numbers);
  if (numbers == NULL) exit(1);
  for (size_t i = 0; i < count; ++i) numbers[i] = value;
  void* address = NULL;
  CHECK(ctn_device_alloc(0, count * sizeof *numbers, &address));
  CHECK(ctn_device_upload(0, address, numbers, count * sizeof *numbers));
  free(numbers);
  return address;
}

int main(void) {
  ctn_chain* chain = NULL;
  ctn_engine* engine = NULL;
  ctn_executable* layer = NULL;
  ctn_compiled* compiled = NULL;
  void* stream = NULL;
  CHECK(ctn_chain_parse(kChain, strlen(kChain), &chain));
  CHECK(ctn_engine_create(NULL, &engine));
  CHECK(ctn_engine_prepare(engine, chain, /*device=*/0, NULL, &layer)); /* plan, compile, load */
  CHECK(ctn_stream_create(0, &stream)); /* or any CUstream or cudaStream_t */

  void* tensors[] = {filled(64 * 128, 0.5f), filled(256 * 128, 0.0625f), filled(256, -1.0f),
                     filled(64 * 256, 0.0f)};
  ctn_launch_args args = {0}; /* every field that is 0 has its default */
  args.struct_size = sizeof args;
  args.tensors = tensors;
  args.num_tensors = 4;
  args.stream = stream;
  CHECK(ctn_executable_launch(layer, &args));

  float y = 0;
  size_t kernels = 0;
  CHECK(ctn_device_download(0, &y, tensors[3], sizeof y));
  CHECK(ctn_executable_compiled(layer, &compiled));
  CHECK(ctn_compiled_kernel_count(compiled, &kernels));
  printf("%zu kernel, y[0] = %.3f\n", kernels, y);

  for (size_t i = 0; i < 4; ++i) ctn_device_free(0, tensors[i]);
  ctn_stream_destroy(0, stream);
  ctn_compiled_destroy(compiled);
  ctn_executable_destroy(layer);
  ctn_engine_destroy(engine);
  ctn_chain_destroy(chain);
  return 0;
}
