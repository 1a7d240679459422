// SPDX-License-Identifier: Apache-2.0
// C ABI: packs, and one compiled chain as a file.
#include "ir/counted.h"
#include "ir/json.h"
#include "ir/output_file.h"
#include "runtime/c_api/c_api.h"
#include "runtime/lookup/pack_lookup.h"

namespace catenary::c_api {
namespace {

Error read_pack_options(const ctn_pack_options* options, PackOptions& out) {
  if (options == nullptr) return Error::success();
  ctn_pack_options given{};
  if (Error error = read_struct(options, "options", given)) return error;
  out.expected_sha256 = text_or_empty(given.expected_sha256);
  out.verify_all = given.verify_all != 0;
  return Error::success();
}

template <size_t kBytes>
void copy_name(char (&out)[kBytes], const std::string& text) {
  const size_t count = std::min(text.size(), kBytes - 1);
  std::memcpy(out, text.data(), count);
  std::memset(out + count, 0, kBytes - count);
}

Error check_index(const Pack& pack, size_t index) {
  if (index < pack.size()) return Error::success();
  return make_error(ErrorCode::kInvalidArgument,
                    "index {} names no entry: the pack {} has {}, counted from 0", index,
                    pack.name(), counted(pack.size(), "entry"));
}

Error fill_info(const Pack& pack, size_t index, ctn_pack_entry_info& info) {
  Expected<PackEntry> entry = pack.entry(index);
  if (!entry) return entry.takeError();
  Expected<PackRow> row = pack.row(index);
  if (!row) return row.takeError();
  const ChainRecord& record = entry->record;
  copy_name(info.key, row->key.hex());
  copy_name(info.chain, record.name);
  copy_name(info.arch, record.arch);
  copy_name(info.target, record.target.name);
  info.sm_count = record.target.sm_count;
  info.symbol_lo = record.symbol ? record.symbol->lo : 0;
  info.symbol_hi = record.symbol ? record.symbol->hi : 0;
  info.num_kernels = 0;
  info.code_bytes = 0;
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      Expected<PackBlob> blob = pack.find_blob(kernel.identity);
      if (!blob) return blob.takeError();
      ++info.num_kernels;
      info.code_bytes += blob->bytes;
    }
  }
  return Error::success();
}

Expected<std::string> info_text(const Pack& pack, bool json) {
  if (json) return pack.manifest();
  std::string text = fmt::format("pack {}\nlaunch version {}, {}, {}, {} bytes\n", pack.name(),
                                 pack.header().launch_abi, counted(pack.size(), "entry"),
                                 counted(pack.header().blobs, "blob"), pack.header().bytes);
  Expected<std::string> read = pack.manifest();
  if (!read) return read.takeError();
  Expected<llvm::json::Value> manifest = parse_json(*read);
  if (!manifest) return manifest.takeError();
  const llvm::json::Object* object = manifest->getAsObject();
  if (object == nullptr) return text;
  if (const auto tool = object->getString("tool")) {
    text += fmt::format("built by {}\n", message_text(tool->str()));
  }
  if (const auto driver = object->getString("min_driver")) {
    text += fmt::format("needs driver {} or newer\n", message_text(driver->str()));
  }
  if (const auto* archs = object->getObject("archs")) {
    for (const auto& [arch, count] : *archs) {
      text += fmt::format("{}: {}\n", message_text(arch.str()),
                          counted(count.getAsInteger().getValueOr(0), "entry"));
    }
  }
  return text;
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_pack_open(const char* path, const ctn_pack_options* options, ctn_pack** pack) {
  return guarded([&]() -> Error {
    PackOptions given;
    if (Error error = require(path, "path", pack, "pack")) return error;
    if (Error error = read_pack_options(options, given)) return error;
    auto opened = Pack::open(path, given);
    if (!opened) return opened.takeError();
    *pack = new ctn_pack{std::move(*opened)};
    return Error::success();
  });
}

ctn_status ctn_pack_open_memory(const void* bytes, size_t size, const ctn_pack_options* options,
                                ctn_pack** pack) {
  return guarded([&]() -> Error {
    PackOptions given;
    if (Error error = require(bytes, "bytes", pack, "pack")) return error;
    if (Error error = read_pack_options(options, given)) return error;
    auto opened = Pack::open_memory({static_cast<const u8*>(bytes), size}, given);
    if (!opened) return opened.takeError();
    *pack = new ctn_pack{std::move(*opened)};
    return Error::success();
  });
}

void ctn_pack_close(ctn_pack* pack) { delete pack; }

ctn_status ctn_pack_info(const ctn_pack* pack, ctn_format format, char** text) {
  return guarded([&]() -> Error {
    if (Error error = require(pack, "pack", text, "text")) return error;
    if (Error error = check_format(format)) return error;
    Expected<std::string> info = info_text(*pack->pack, format == CTN_JSON);
    if (!info) return info.takeError();
    *text = copy_text(*info);
    return Error::success();
  });
}

ctn_status ctn_pack_entry_count(const ctn_pack* pack, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(pack, "pack", count, "count")) return error;
    *count = pack->pack->size();
    return Error::success();
  });
}

ctn_status ctn_pack_entry(const ctn_pack* pack, size_t index, ctn_pack_entry_info* info) {
  return guarded([&]() -> Error {
    ctn_pack_entry_info facts{};
    if (Error error = require(pack, "pack")) return error;
    if (Error error = read_struct(info, "info", facts)) return error;
    if (Error error = check_index(*pack->pack, index)) return error;
    if (Error error = fill_info(*pack->pack, index, facts)) return error;
    *info = facts;
    return Error::success();
  });
}

ctn_status ctn_pack_compiled(const ctn_pack* pack, size_t index, ctn_compiled** compiled) {
  return guarded([&]() -> Error {
    if (Error error = require(pack, "pack", compiled, "compiled")) return error;
    if (Error error = check_index(*pack->pack, index)) return error;
    auto record = pack->pack->record(index);
    if (!record) return record.takeError();
    *compiled = new ctn_compiled{std::move(*record)};
    return Error::success();
  });
}

ctn_status ctn_pack_find(const ctn_pack* pack, const ctn_chain* chain, const char* target,
                         ctn_compiled** compiled) {
  return guarded([&]() -> Error {
    if (Error error =
            require(pack, "pack", chain, "chain", target, "target", compiled, "compiled")) {
      return error;
    }
    Expected<Target> found = find_target(target);
    if (!found) return found.takeError();
    Expected<bool> simulated = cuda::simulator_chosen();
    if (!simulated) return simulated.takeError();
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    const ChainRequest request =
        make_request(std::move(*verified), std::move(*found), *simulated, {});
    LookupOptions options;
    options.jit = JitMode::kOff;
    options.packs = {pack->pack};
    PackLookup lookup(std::move(options));
    auto record = lookup.find(request);
    if (!record) return record.takeError();
    if (!*record) return lookup.miss(request);
    *compiled = new ctn_compiled{std::move(*record)};
    return Error::success();
  });
}

ctn_status ctn_engine_add_pack(ctn_engine* engine, const ctn_pack* pack, int32_t priority) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine", pack, "pack")) return error;
    engine->engine.add_pack(pack->pack, priority);
    return Error::success();
  });
}

ctn_status ctn_engine_missed(ctn_engine* engine, char** trace_text) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine", trace_text, "trace_text")) return error;
    *trace_text = copy_text(engine->engine.missed());
    return Error::success();
  });
}

ctn_status ctn_pack_writer_create(const ctn_pack_writer_options* options,
                                  ctn_pack_writer** writer) {
  return guarded([&]() -> Error {
    if (Error error = require(writer, "writer")) return error;
    ctn_pack_writer_options given{};
    if (options != nullptr) {
      if (Error error = read_struct(options, "options", given)) return error;
    }
    PackContents contents;
    contents.explain = given.without_explain == 0;
    contents.sources = given.with_sources != 0;
    *writer = new ctn_pack_writer{PackWriter(contents)};
    return Error::success();
  });
}

void ctn_pack_writer_destroy(ctn_pack_writer* writer) { delete writer; }

ctn_status ctn_pack_writer_add(ctn_pack_writer* writer, const ctn_compiled* compiled) {
  return guarded([&]() -> Error {
    if (Error error = require(writer, "writer", compiled, "compiled")) return error;
    return writer->writer.add(*compiled->record).takeError();
  });
}

ctn_status ctn_pack_writer_finish(const ctn_pack_writer* writer, const char* path) {
  return guarded([&]() -> Error {
    if (Error error = require(writer, "writer", path, "path")) return error;
    return writer->writer.write(path);
  });
}

ctn_status ctn_compiled_save(const ctn_compiled* compiled, const char* path) {
  return guarded([&]() -> Error {
    if (Error error = require(compiled, "compiled", path, "path")) return error;
    PackWriter writer;
    Expected<bool> added = writer.add(*compiled->record);
    if (!added) return added.takeError();
    return writer.write(path);
  });
}

ctn_status ctn_compiled_open(const char* path, const ctn_pack_options* options,
                             ctn_compiled** compiled) {
  return guarded([&]() -> Error {
    PackOptions given;
    if (Error error = require(path, "path", compiled, "compiled")) return error;
    if (Error error = read_pack_options(options, given)) return error;
    auto pack = Pack::open(path, given);
    if (!pack) return pack.takeError();
    if ((*pack)->size() != 1) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the pack {} has {}, and one is needed: use ctn_pack_compiled",
                        (*pack)->name(), counted((*pack)->size(), "entry"));
    }
    auto record = (*pack)->record(0);
    if (!record) return record.takeError();
    *compiled = new ctn_compiled{std::move(*record)};
    return Error::success();
  });
}
