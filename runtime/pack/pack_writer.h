// SPDX-License-Identifier: Apache-2.0
// Entries -> the bytes of a pack. The same entries give the same bytes, in whichever order they are
// added: no time, no path and no address is in them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/pack/pack.h"

namespace catenary {

struct PackContents {
  bool explain = true;   // the plan as text and as JSON, for ctn_compiled_explain
  bool sources = false;  // the emitted source of every kernel
};

class PackWriter {
 public:
  explicit PackWriter(PackContents contents = {}) : contents_(contents) {}

  // Adds a chain. False: the pack has an entry for the same chain, options, architecture and GPU,
  // and keeps it. kUnsupported: the chain's text or machine code cannot be in a pack, or it is from
  // a pack of another launch version than the entries before.
  Expected<bool> add(const ChainRecord& record);

  // Copies an entry with all that it holds, also what this library does not know.
  Expected<bool> add(const Pack& pack, size_t index);

  size_t size() const { return entries_.size(); }
  // kResourceLimit: more entries or bytes than a pack can have.
  Expected<std::vector<u8>> bytes() const;
  // Writes the file whole or not at all. kIo.
  Error write(const std::string& path) const;

 private:
  struct Id {
    KernelKey key;
    u64 fit = 0;
    auto operator<=>(const Id&) const = default;
  };
  struct KernelFacts {
    std::string family;
    std::string compiler;
    KernelKey code;
  };
  struct Entry {
    std::vector<u8> bytes;
    u64 structure = 0;
    std::string arch;
    std::vector<KernelFacts> kernels;
  };
  struct Blob {
    std::vector<u8> bytes;
    bool code = false;  // machine code, else text
  };

  Error take_launch_abi(u32 launch_abi);
  Error add_texts(const ChainRecord& record, PackEntry& entry);
  KernelKey add_blob(llvm::ArrayRef<u8> bytes, bool code);
  Error copy_blob(const Pack& pack, const KernelKey& digest, bool code);
  bool insert(const PackEntry& entry, std::vector<u8> bytes, u64 structure);
  struct Layout;
  Layout layout() const;
  std::string manifest() const;
  std::vector<u8> index_bytes(const Layout& layout) const;
  std::vector<u8> blob_table_bytes(const Layout& layout) const;

  PackContents contents_;
  u32 launch_abi_ = pack_format::kLaunchAbi;  // of the first entry, and so of all
  std::map<Id, Entry> entries_;
  std::map<KernelKey, Blob> blobs_;
};

}  // namespace catenary
