/* SPDX-License-Identifier: Apache-2.0
 * An NVRTC that compiles nothing. A source that names a fault (FAULT_CRASH, FAULT_HANG,
 * FAULT_MEMORY, FAULT_EXIT, FAULT_KILLED) has it when it is compiled; any other gives a fixed image
 * and a log as ptxas writes it. The name of a program is "<symbol>.cu". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct {
  char source[4096];
  char log[8192];
  char symbol[256];
} Program;

static const char kPtx[] = "// Cuda compilation tools, release 13.0, V13.0.1\n// Based on CL-1\n";
static const char kImage[] = "fake machine code";

EXPORTED int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
EXPORTED int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}
EXPORTED int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 90;
  return 0;
}
EXPORTED int nvrtcCreateProgram(Program** program, const char* source, const char* name, int count,
                                const char* const* headers, const char* const* names) {
  (void)count, (void)headers, (void)names;
  Program* made = calloc(1, sizeof *made);
  if (made == NULL) return 1;
  snprintf(made->source, sizeof made->source, "%s", source);
  snprintf(made->symbol, sizeof made->symbol, "%.*s", (int)strcspn(name, "."), name);
  *program = made;
  return 0;
}
EXPORTED int nvrtcDestroyProgram(Program** program) {
  free(*program);
  *program = NULL;
  return 0;
}

static void eat_memory(void) {
  for (;;) {
    char* bytes = malloc(16 << 20);
    if (bytes == NULL) abort();
    bytes[0] = 1;
  }
}

EXPORTED int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  (void)count, (void)options;
  if (strstr(program->source, "FAULT_CRASH")) abort();
  if (strstr(program->source, "FAULT_EXIT")) _exit(3);
  if (strstr(program->source, "FAULT_KILLED")) kill(getpid(), SIGKILL);
  if (strstr(program->source, "FAULT_MEMORY")) eat_memory();
  while (strstr(program->source, "FAULT_HANG")) pause();
  snprintf(program->log, sizeof program->log,
           "ptxas info    : Compiling entry function '%s' for 'sm_90a'\n"
           "ptxas info    : Function properties for %s\n"
           "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Used 12 registers, used 0 barriers\n",
           program->symbol, program->symbol);
  return 0;
}
EXPORTED int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  (void)program;
  *bytes = sizeof kImage;
  return 0;
}
EXPORTED int nvrtcGetCUBIN(Program* program, char* bytes) {
  (void)program;
  memcpy(bytes, kImage, sizeof kImage);
  return 0;
}
EXPORTED int nvrtcGetPTXSize(Program* program, size_t* bytes) {
  (void)program;
  *bytes = sizeof kPtx;
  return 0;
}
EXPORTED int nvrtcGetPTX(Program* program, char* text) {
  (void)program;
  memcpy(text, kPtx, sizeof kPtx);
  return 0;
}
EXPORTED int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = strlen(program->log) + 1;
  return 0;
}
EXPORTED int nvrtcGetProgramLog(Program* program, char* text) {
  strcpy(text, program->log);
  return 0;
}
EXPORTED const char* nvrtcGetErrorString(int result) { return result == 0 ? "ok" : "fault"; }
