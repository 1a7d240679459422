// SPDX-License-Identifier: Apache-2.0
// What a chain becomes, as files: chain and plan text, and per kernel its source, PTX, cubin and
// SASS. Kernels of a chain with several buckets lie in a folder per range of the symbol.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine.h"

namespace catenary::tools {

struct ArtifactKinds {
  bool source = false;
  bool ptx = false;    // of kernels for a GPU alone, as is SASS
  bool cubin = false;  // of kernels for the simulator a shared object
  bool sass = false;   // where cuobjdump or nvdisasm is found, else a note
};

struct Artifacts {
  std::vector<std::string> files;  // written, in order
  std::vector<std::string> notes;  // one sentence for each thing left out
};

// "M_1_to_16/", the folder of a bucket's kernels, or "" where the plan has one bucket.
std::string bucket_folder(const VerifiedChain& chain, const Plan& plan, size_t bucket);

// Writes the kernels' files into `folder`, which is made. kIo; the compiler's errors for PTX.
Error write_kernels(const std::string& folder, const CompiledChain& compiled, ArtifactKinds kinds,
                    Artifacts& written);

// Writes the emitted sources alone: needs no NVRTC.
Error write_sources(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                    Artifacts& written);

// Writes chain.chain, plan.txt and plan.json.
Error write_plan(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                 Artifacts& written);

// Everything there is: what --dump asks for.
Error write_dump(const std::string& folder, const CompiledChain& compiled, Artifacts& written);

}  // namespace catenary::tools
