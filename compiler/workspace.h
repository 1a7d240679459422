// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a bucket's workspace are, once its kernels are known.
#pragma once

#include "compiler/kernel_plan.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// Moves the kernels' workspace slots: a tensor is live from the first kernel that addresses it
// to the last one, and tensors that are live at one time do not overlap; others may have the same
// memory. `kernels`: in launch order, with slots that name a tensor by its offset. Returns the
// bytes in all. Offsets are multiples of 256; an empty tensor has 256 bytes of its own.
//
// A kernel may write where an earlier one reads. On every path it first waits until the kernel
// before it has ended (griddepcontrol.wait). That kernel has waited likewise, so all earlier ones
// have ended.
i64 share_workspace(llvm::MutableArrayRef<KernelPlan> kernels);

}  // namespace catenary
