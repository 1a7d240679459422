// SPDX-License-Identifier: Apache-2.0
// Packs for C++20: compiled chains in a file or in memory, loaded without a compiler. Errors,
// threads and lifetimes are those of catenary.h.
#ifndef CATENARY_PACK_HPP
#define CATENARY_PACK_HPP

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "catenary/catenary.hpp"

namespace ctn {

namespace detail {
using PackHandle = std::unique_ptr<ctn_pack, Destroy<ctn_pack, ctn_pack_close> >;
using PackWriterHandle =
    std::unique_ptr<ctn_pack_writer, Destroy<ctn_pack_writer, ctn_pack_writer_destroy> >;
}  // namespace detail

// How a pack is opened.
struct PackOptions {
  std::string expected_sha256 = {};  // of the whole file; empty: any file
  bool verify_all = false;           // every entry is checked now, not when it is used
};

// A pack that is open. Thread-safe.
class Pack {
 public:
  // A file.
  explicit Pack(const std::string& path, const PackOptions& options = {}) {
    const ctn_pack_options given = c_options(options);
    ctn_pack* pack = nullptr;
    check(ctn_pack_open(detail::c_text(path), &given, &pack));
    handle_.reset(pack);
  }
  // The bytes must not change until everything made from the pack is destroyed.
  explicit Pack(std::span<const std::byte> bytes, const PackOptions& options = {}) {
    const ctn_pack_options given = c_options(options);
    ctn_pack* pack = nullptr;
    check(ctn_pack_open_memory(bytes.data(), bytes.size(), &given, &pack));
    handle_.reset(pack);
  }

  // What the pack is: version, entries, architectures, families, compilers.
  std::string info(ctn_format format = CTN_TEXT) const {
    char* text = nullptr;
    check(ctn_pack_info(handle_.get(), format, &text));
    return detail::take(text);
  }

  // Facts of every entry.
  std::vector<ctn_pack_entry_info> entries() const {
    std::size_t count = 0;
    check(ctn_pack_entry_count(handle_.get(), &count));
    std::vector<ctn_pack_entry_info> entries(count);
    for (std::size_t i = 0; i < count; ++i) {
      entries[i].struct_size = sizeof entries[i];
      check(ctn_pack_entry(handle_.get(), i, &entries[i]));
    }
    return entries;
  }

  // The compiled chain of entry `index`.
  Compiled compiled(std::size_t index) const {
    ctn_compiled* compiled = nullptr;
    check(ctn_pack_compiled(handle_.get(), index, &compiled));
    return Compiled(compiled);
  }

  // CTN_PACK_MISS: what() names the nearest entry and what differs.
  Compiled find(const Chain& chain, const std::string& target) const {
    ctn_compiled* compiled = nullptr;
    check(ctn_pack_find(handle_.get(), chain.get(), detail::c_text(target), &compiled));
    return Compiled(compiled);
  }

  // For the C ABI.
  const ctn_pack* get() const { return handle_.get(); }

 private:
  static ctn_pack_options c_options(const PackOptions& options) {
    ctn_pack_options given{};
    given.struct_size = sizeof given;
    given.expected_sha256 = detail::name_or_null(options.expected_sha256);
    given.verify_all = options.verify_all ? 1 : 0;
    return given;
  }
  detail::PackHandle handle_;
};

// From now on the engine looks into the pack before it compiles; a higher priority comes first.
inline void add_pack(const Engine& engine, const Pack& pack, int priority = 0) {
  check(ctn_engine_add_pack(engine.get(), pack.get(), priority));
}

// All chains that no pack of the engine had, as the lines of a trace.
inline std::string missed(const Engine& engine) {
  char* text = nullptr;
  check(ctn_engine_missed(engine.get(), &text));
  return detail::take(text);
}

// A pack under construction. One thread at a time.
class PackWriter {
 public:
  // What the pack holds beside machine code.
  explicit PackWriter(bool with_explain = true, bool with_sources = false) {
    ctn_pack_writer_options given{};
    given.struct_size = sizeof given;
    given.without_explain = with_explain ? 0 : 1;
    given.with_sources = with_sources ? 1 : 0;
    ctn_pack_writer* writer = nullptr;
    check(ctn_pack_writer_create(&given, &writer));
    handle_.reset(writer);
  }

  // Adds a compiled chain.
  void add(const Compiled& compiled) { check(ctn_pack_writer_add(handle_.get(), compiled.get())); }
  // Writes the file, whole or not at all.
  void finish(const std::string& path) const {
    check(ctn_pack_writer_finish(handle_.get(), detail::c_text(path)));
  }

 private:
  detail::PackWriterHandle handle_;
};

// One compiled chain as a file, and back.
inline void save(const Compiled& compiled, const std::string& path) {
  check(ctn_compiled_save(compiled.get(), detail::c_text(path)));
}
inline Compiled open_compiled(const std::string& path) {
  ctn_compiled* compiled = nullptr;
  check(ctn_compiled_open(detail::c_text(path), nullptr, &compiled));
  return Compiled(compiled);
}

}  // namespace ctn

#endif  // CATENARY_PACK_HPP
