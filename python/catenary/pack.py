# SPDX-License-Identifier: Apache-2.0
"""Packs: chains that are compiled ahead of time, in one file. Mirrors include/catenary/pack.hpp; see docs/packs.md."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catenary import _native
from catenary._native import JSON, lib
from catenary.arguments import encode, file_path, flag, instance, integer, shown
from catenary.chain import Chain
from catenary.compiled import Compiled
from catenary.errors import Handle, check, copied, result, text


@dataclass(frozen=True)
class PackEntry:
    """Facts of one entry of a pack."""

    key: str
    """SHA-256 of chain, architecture and options as hex digits."""
    chain: str
    """The chain's name."""
    arch: str
    """ "sm_90a"; "host:sm_90a" for the simulator."""
    target: str
    """The GPU that it is planned for, "h200"."""
    sm_count: int
    """SMs of that GPU."""
    symbol_lo: int
    """The range of the symbol; both 0 without one."""
    symbol_hi: int
    num_kernels: int
    """Kernels of all buckets of the symbol."""
    code_bytes: int
    """Bytes of machine code."""


class Pack:
    """Compiled chains in a file or in memory. Thread-safe. A pack is code: open only what you trust.

    Args:
        source: a path, or the bytes of a pack.
        expected_sha256: of the whole file, 64 hex digits; "": any file.
        verify_all: every entry is checked now, not when it is used.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes, expected_sha256: str = "", verify_all: bool = False):
        options = ctypes.byref(
            _native.PackOptions(
                expected_sha256=encode(expected_sha256) or None, verify_all=flag(verify_all, "verify_all")
            )
        )
        if isinstance(source, bytes):
            address = ctypes.cast(ctypes.c_char_p(source), ctypes.c_void_p)
            self._handle = Handle(lib.ctn_pack_close, lib.ctn_pack_open_memory, address, len(source), options)
            # The bytes must stay as they are while anything of the pack is in use: they are never freed.
            _memory.append(source)
        else:
            path = file_path(source, "source", "a path or bytes")
            self._handle = Handle(lib.ctn_pack_close, lib.ctn_pack_open, path, options)

    @property
    def info(self) -> dict[str, Any]:
        """Version, entries, architectures, families, compilers."""
        return json.loads(text(lib.ctn_pack_info, self._handle.pointer, JSON))

    def __len__(self) -> int:
        return result(ctypes.c_size_t, lib.ctn_pack_entry_count, self._handle.pointer)

    def __getitem__(self, index: int) -> PackEntry:
        index, count = integer(index, "index"), len(self)
        if not -count <= index < count:
            raise IndexError(f"index is {shown(index)}, and the pack has {count} entries")
        index %= count
        facts = _native.PackEntryInfo()
        check(lib.ctn_pack_entry(self._handle.pointer, index, ctypes.byref(facts)))
        return PackEntry(
            facts.key.decode(),
            facts.chain.decode(),
            facts.arch.decode(),
            facts.target.decode(),
            facts.sm_count,
            facts.symbol_lo,
            facts.symbol_hi,
            facts.num_kernels,
            facts.code_bytes,
        )

    def __reduce__(self):
        raise copied()

    def __iter__(self) -> Iterator[PackEntry]:
        return (self[index] for index in range(len(self)))

    def compiled(self, index: int) -> Compiled:
        """The compiled chain of an entry, for `Engine.load`."""
        return Compiled(lib.ctn_pack_compiled, self._handle.pointer, integer(index, "index", lo=0))

    def find(self, chain: Chain, target: str) -> Compiled:
        """The entry for a chain. PackError names the nearest entry and what differs."""
        instance(chain, Chain, "the chain")
        return Compiled(lib.ctn_pack_find, self._handle.pointer, chain._handle.pointer, encode(target))


class PackWriter:
    """Makes a pack of compiled chains. One thread at a time."""

    def __init__(self, *, without_explain: bool = False, with_sources: bool = False):
        options = _native.PackWriterOptions(
            without_explain=flag(without_explain, "without_explain"), with_sources=flag(with_sources, "with_sources")
        )
        self._handle = Handle(lib.ctn_pack_writer_destroy, lib.ctn_pack_writer_create, ctypes.byref(options))

    def __reduce__(self):
        raise copied()

    def add(self, compiled: Compiled) -> None:
        """A second entry for one chain, set of options, architecture and GPU is left out."""
        instance(compiled, Compiled, "what is added")
        check(lib.ctn_pack_writer_add(self._handle.pointer, compiled._handle.pointer))

    def finish(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all. The same chains give the same bytes, in any order."""
        check(lib.ctn_pack_writer_finish(self._handle.pointer, file_path(path, "path")))


_memory: list[bytes] = []
