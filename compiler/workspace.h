// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a bucket's workspace lie, once its kernels are known.
#pragma once

#include "compiler/kernel_plan.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// Moves the kernels' workspace slots: two tensors lie apart if some kernel addresses both or runs
// while both are needed, which is from a tensor's first kernel to its last; others may have the
// same memory. `kernels`: in launch order, with slots that name a tensor by its offset. Returns the
// bytes in all. Offsets are multiples of 256; an empty tensor has 256 bytes of its own.
//
// A kernel may write where the kernel before it reads: every family waits for the kernel before
// (griddepcontrol.wait) on every path before it writes, and so the wait ends after all earlier
// kernels have ended, too.
i64 share_workspace(llvm::MutableArrayRef<KernelPlan> kernels);

}  // namespace catenary
