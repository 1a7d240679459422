// SPDX-License-Identifier: Apache-2.0
// The files of a compiled chain: chain and plan text; source, PTX, cubin and SASS of each kernel.
// If the plan has several buckets, each has a folder.
#pragma once

#include <string>
#include <vector>

#include "ir/json.h"
#include "runtime/engine.h"

namespace catenary::tools {

struct ArtifactKinds {
  bool source = false;
  bool ptx = false;    // GPU kernels only
  bool cubin = false;  // a shared object for kernels of the simulator
  bool sass = false;   // GPU kernels only; a note if there is no disassembler
};

struct Artifacts {
  std::vector<std::string> files;  // paths, in the order of writing
  std::vector<std::string> notes;  // one sentence per file that was not written
};

// {"files": [...], "notes": [...]}.
llvm::json::Value artifacts_json(const Artifacts& written);

// "M_1_to_16/", the folder of a bucket; "" if the plan has one bucket. A symbol may occur in
// several buckets.
std::string bucket_folder(const VerifiedChain& chain, const Plan& plan, size_t bucket);

// Writes the files of all kernels into `folder`, which it creates. kIo; for PTX, errors of NVRTC.
Error write_kernels(const std::string& folder, const CompiledChain& compiled, ArtifactKinds kinds,
                    Artifacts& written);

// Writes only the emitted sources. Needs no NVRTC.
Error write_sources(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                    Artifacts& written);

// Writes chain.chain, plan.txt and plan.json.
Error write_plan(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                 Artifacts& written);

// Writes all of the above, for --dump.
Error write_dump(const std::string& folder, const CompiledChain& compiled, Artifacts& written);

}  // namespace catenary::tools
