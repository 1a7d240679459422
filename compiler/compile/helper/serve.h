// SPDX-License-Identifier: Apache-2.0
// The helper's side of the conversation.
#pragma once

namespace catenary {

// Says who this helper is, then compiles what comes through `socket`, one job at a time, until none
// comes for a few seconds. Ends the process at once when the library's side of the socket closes,
// also within a compile, so that a host that is killed leaves no compiler. Returns the exit status.
int serve(int socket);

}  // namespace catenary
