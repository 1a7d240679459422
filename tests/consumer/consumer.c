/* SPDX-License-Identifier: Apache-2.0
 * A program in C that uses the library: parses a chain and reports an error. */
#include <stdio.h>
#include <string.h>

#include "catenary/catenary.h"

int main(void) {
  const char* text = "chain c(input x: f32[4]) {\n  y = relu(x)\n  return y: f32\n}\n";
  ctn_chain* chain = NULL;
  if (ctn_chain_parse(text, strlen(text), &chain) != CTN_OK || ctn_chain_verify(chain) != CTN_OK) {
    fprintf(stderr, "%s\n", ctn_last_error());
    return 1;
  }
  ctn_chain_destroy(chain);
  if (ctn_chain_parse("chain", 5, &chain) != CTN_PARSE) return 1;
  printf("catenary %s: %s\n", ctn_version(), ctn_last_error());
  return 0;
}
