# SPDX-License-Identifier: Apache-2.0
"""A compiler of chains and its cache: `Engine`; the log of the library."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from catenary import _native
from catenary._native import lib
from catenary.arguments import INT32, encode, file_path, flag, instance, integer, items, shown
from catenary.chain import Chain
from catenary.compiled import Compiled, Plan, make_plan
from catenary.device import device_count, is_simulator, use_simulator
from catenary.errors import ArgumentError, ArgumentTypeError, Handle, check, copied, text
from catenary.executable import Executable, stream_pointer
from catenary.pack import Pack

_CACHE = {"rw": 0, "ro": 1, "off": 2}
_JIT = {None: 0, "auto": 1, "warn": 2, "off": 3}
_HELPER = {None: 0, "off": 1, "preferred": 2, "required": 3}
_LEVELS = {"off": 0, "warn": 1, "info": 2, "debug": 3}
_LEVEL_NAMES = {number: name for name, number in _LEVELS.items()}
_LOGGING = {1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}
_SIMULATOR = 2  # CTN_BACKEND_SIMULATOR
_CUDA = 1

logger = logging.getLogger("catenary")


class Engine:
    """A compiler and its cache. Thread-safe.

    Args:
        device: "cuda", "cuda:1" or 1; "sim": the simulator, for the whole process; None: a GPU where there is one,
            else the simulator. CATENARY_DEVICE decides for None.
        cache_directory: of kernels; None: CATENARY_CACHE_DIR, else catenary/ in the user's cache folder.
        cache: "rw", "ro" or "off".
        packs: a file or `Pack`, or several, that are asked before a chain is compiled, the first first.
        jit: what happens to a chain that no pack has: "auto": it is compiled; "warn": the same, with a warning;
            "off": PackError, and no compiler is opened; None: as CATENARY_JIT says, else "auto".
        strict: True is jit="off".
        trace_file: gets one line per distinct chain, for `catenary pack build --from`.
        line_info: profilers show the emitted source.
        allow_spills: accept a kernel whose registers spill.
        unfused: one kernel per operation, for comparison.
        split_k: CTAs that divide K, 1 to 16; 0: the cost model chooses.
        force_tile: a tile's name as explain prints it.
        batch_invariant: the bits of a row depend neither on the number of rows nor on other rows. Sums of products
            have one order for every M, and small M has no kernels of its own: it is slower.
        algebraic_norms: every chain is compiled as if its text had this word: row scales of norms move through the
            contractions that read the normalised rows, and roundings on that way are dropped.
        nvrtc_build: the build of NVRTC that kernels of the cache are of, as `catenary doctor` prints it,
            "nvrtc 13.0.88 CL-36424714". NVRTC is then opened only for a kernel that is not in the cache, and another
            build is a CompileError. "": CATENARY_NVRTC_BUILD, else NVRTC is opened to ask for its build. Without effect
            in the simulator.
        helper: where NVRTC runs: "off": in this process; "preferred", "required": in a helper process; None: as
            CATENARY_HELPER says, else "off".
        helper_program, helper_memory_bytes, helper_seconds: the helper's program and limits; "" and 0: defaults.
        warn: called with one line per distinct problem of the cache, from any thread; None: the log.
    """

    def __init__(
        self,
        *,
        device: str | int | None = None,
        cache_directory: str | os.PathLike[str] | None = None,
        cache: str = "rw",
        packs: Sequence[Pack | str | os.PathLike[str]] | Pack | str | os.PathLike[str] = (),
        jit: str | None = None,
        strict: bool = False,
        trace_file: str | os.PathLike[str] = "",
        line_info: bool = False,
        allow_spills: bool = False,
        unfused: bool = False,
        split_k: int = 0,
        force_tile: str = "",
        batch_invariant: bool = False,
        algebraic_norms: bool = False,
        nvrtc_build: str = "",
        helper: str | None = None,
        helper_program: str | os.PathLike[str] = "",
        helper_memory_bytes: int = 0,
        helper_seconds: int = 0,
        warn: Callable[[str], None] | None = None,
    ):
        self._device = _device_number(device)
        if warn is not None and not callable(warn):
            raise ArgumentTypeError(f"warn is {shown(warn)}: pass a function that takes one line")
        self._warn = _warn_once(warn) if warn else None
        self._options = dict(
            cache_directory=file_path("" if cache_directory is None else cache_directory, "cache_directory"),
            cache_mode=_choice("cache", cache, _CACHE),
            line_info=flag(line_info, "line_info"),
            allow_spills=flag(allow_spills, "allow_spills"),
            unfused=flag(unfused, "unfused"),
            split_k=integer(split_k, "split_k", hi=INT32),
            force_tile=encode(force_tile),
            batch_invariant=flag(batch_invariant, "batch_invariant"),
            algebraic_norms=flag(algebraic_norms, "algebraic_norms"),
            nvrtc_build=encode(nvrtc_build),
            trace_file=file_path(trace_file, "trace_file"),
            jit=_jit(jit, flag(strict, "strict")),
            helper=_choice("helper", helper, _HELPER),
            helper_program=file_path(helper_program, "helper_program"),
            helper_memory_bytes=integer(helper_memory_bytes, "helper_memory_bytes"),
            helper_seconds=integer(helper_seconds, "helper_seconds", hi=INT32),
        )
        if self._warn is not None:
            self._options["warn"] = self._warn
        given = [packs] if isinstance(packs, (Pack, str, os.PathLike)) else items(packs, "packs")
        self._packs = [(pack if isinstance(pack, Pack) else Pack(pack), 0) for pack in given]
        self._handles: dict[int, Handle] = {}
        self._prepared: dict[tuple[str, int], Executable] = {}
        self._lock = threading.Lock()
        # A wrong option or pack is an error of this call.
        self._wants_simulator = device == "sim" or (device is None and is_simulator() and not _went_on)
        self._simulated = self._wants_simulator or (device is None and is_simulator())
        self._handle(_SIMULATOR if self._simulated else _CUDA)

    @property
    def device(self) -> str:
        """The device of `prepare`: "cuda:0", "sim". Chooses the process's device where that is open."""
        return "sim" if self._choose_device() else f"cuda:{self._device}"

    def compile(self, chain: Chain, target: str | None = None) -> Compiled:
        """Machine code for a GPU ("h200") or an architecture ("sm_80"); needs no GPU. None: for this device.

        Where the simulator was asked for, by device="sim" or for the process, the machine code is the simulator's.
        Raises CompileError, UnsupportedError, PackError.
        """
        if target is None:
            return self.prepare(chain).compiled
        instance(chain, Chain, "the chain")
        handle = self._handle(_SIMULATOR if self._wants_simulator else _CUDA)
        return Compiled(lib.ctn_engine_compile, handle.pointer, chain._handle.pointer, encode(target))

    def explain(self, chain: Chain, target: str = "h200") -> Plan:
        """The plan for `target`, without compiling."""
        instance(chain, Chain, "the chain")
        handle = self._all_handles()[0]
        return make_plan(
            lambda kind, out: lib.ctn_engine_explain(handle.pointer, chain._handle.pointer, encode(target), kind, out)
        )

    def load(self, compiled: Compiled, device: int | None = None, stream: Any = None) -> Executable:
        """Loads machine code on a device. CaptureError while `stream`, or for None any blocking one, is captured."""
        instance(compiled, Compiled, "the machine code")
        handle, number = self._on_device(device)
        return Executable(
            number,
            lib.ctn_engine_load,
            handle.pointer,
            compiled._handle.pointer,
            number,
            stream_pointer(stream) or None,
        )

    def prepare(self, chain: Chain, device: int | None = None, stream: Any = None) -> Executable:
        """Plans, compiles or finds, and loads a chain. A second call for an equal chain returns the same object."""
        instance(chain, Chain, "the chain")
        handle, number = self._on_device(device)
        key = (chain.text, number)
        found = self._prepared.get(key)
        if found is None:
            made = Executable(
                number,
                lib.ctn_engine_prepare,
                handle.pointer,
                chain._handle.pointer,
                number,
                stream_pointer(stream) or None,
            )
            with self._lock:
                found = self._prepared.setdefault(key, made)
        return found

    def add_pack(self, pack: Pack | str | os.PathLike[str], priority: int = 0) -> None:
        """From now on the pack is asked before a chain is compiled; a higher priority is asked first."""
        opened, priority = pack if isinstance(pack, Pack) else Pack(pack), integer(priority, "priority", hi=INT32)
        with self._lock:
            self._packs.append((opened, priority))
            handles = list(self._handles.values())
        for handle in handles:
            check(lib.ctn_engine_add_pack(handle.pointer, opened._handle.pointer, priority))

    @property
    def missed(self) -> str:
        """The chains that no pack had, each once, as the lines of a trace; "" if there is none."""
        return "".join(text(lib.ctn_engine_missed, handle.pointer) for handle in self._all_handles())

    def _on_device(self, device: int | None) -> tuple[Handle, int]:
        simulator = self._choose_device()
        number = (self._device or 0) if device is None else integer(device, "device", 0, INT32)
        return self._handle(_SIMULATOR if simulator else _CUDA), number

    def _choose_device(self) -> bool:
        """Whether the simulator is the device; opens the driver, or goes on without a GPU where that is allowed."""
        global _went_on
        if self._simulated:
            if not is_simulator():
                use_simulator()
            return True
        if is_simulator():
            if self._device is not None:
                raise ArgumentError(
                    f"device is cuda:{self._device}, and the simulator is the device of this process: "
                    "use device='sim', or a process of its own"
                )
            self._simulated = True
        elif self._device is None and os.environ.get("CATENARY_DEVICE") != "cuda" and device_count() == 0:
            logger.info("no GPU: the simulator is the device of this process")
            _went_on = True
            use_simulator()
            self._simulated = True
        return self._simulated

    def _all_handles(self) -> list[Handle]:
        """Those of now: another thread may open a further device."""
        with self._lock:
            return list(self._handles.values())

    def _handle(self, backend: int) -> Handle:
        found = self._handles.get(backend)
        if found is not None:
            return found
        # Without the lock: the library logs, and the function that gets the line may use this engine.
        if backend == _CUDA and not os.environ.get("CATENARY_NVRTC"):
            find_nvrtc()
        options = _native.EngineOptions(**self._options, backend=backend)
        made = Handle(lib.ctn_engine_destroy, lib.ctn_engine_create, ctypes.byref(options))
        made.keeps = self._warn
        added = 0
        while True:
            with self._lock:
                if backend in self._handles or added == len(self._packs):
                    return self._handles.setdefault(backend, made)
                packs = self._packs[added:]
            for pack, priority in packs:
                check(lib.ctn_engine_add_pack(made.pointer, pack._handle.pointer, priority))
            added += len(packs)

    def __reduce__(self):
        raise copied()


def _device_number(device: str | int | None) -> int | None:
    if device is None or (isinstance(device, str) and device == "sim"):
        return None
    if not isinstance(device, (str, bool)) and hasattr(device, "__index__"):
        return integer(device, "device", 0, INT32)
    match = re.fullmatch(r"cuda(?::([0-9]{1,9}))?", str(device))  # torch.device too
    if match is None:
        raise ArgumentError(f"device is {shown(device)}: use 'cuda', 'cuda:1', 1 or 'sim'")
    return int(match[1] or 0)


def _warn_once(warn: Callable[[str], None]) -> Any:
    """The callback of an engine's handles: each handle warns, and a line is passed on once."""
    said: set[bytes] = set()

    def send(user: Any, line: bytes) -> None:
        if line not in said:
            said.add(line)
            warn(line.decode(errors="replace"))

    return _native.WarnCallback(send)


def _choice(name: str, value: Any, choices: dict[Any, int]) -> int:
    if not isinstance(value, (str, type(None))) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise ArgumentError(f"{name} is {shown(value)}: use one of {words}")
    return choices[value]


def _jit(jit: Any, strict: bool) -> int:
    mode = _choice("jit", jit, _JIT)
    if strict and mode not in (_JIT[None], _JIT["off"]):
        raise ArgumentError(f"strict is True, which is jit='off', and jit is {shown(jit)}: leave one of them out")
    return _JIT["off"] if strict else mode


# Whether an engine took the simulator because there is no GPU, and not because the caller asked for it.
_went_on = False
_default: Engine | None = None
_default_lock = threading.Lock()


def default_engine() -> Engine:
    """The engine of calls that name none, with all defaults."""
    global _default
    if _default is None:
        made = Engine()  # without the lock, as in Engine._handle
        with _default_lock:
            if _default is None:
                _default = made
    return _default


@functools.cache
def find_nvrtc() -> None:
    """Tells the library where this Python environment may have NVRTC: its own wheel, which torch brings as well.

    Without one, cuda.pathfinder searches where it is installed. The library searches toolkits and the loader's path.
    """
    folders = _native.wheel_folders()
    for folder in folders:
        check(lib.ctn_nvrtc_add_folder(file_path(folder, "a folder of sys.path")))
    if any(next(folder.glob("nvidia/*/lib/libnvrtc.so.*"), None) for folder in folders):
        return
    with contextlib.suppress(ImportError):
        from cuda import pathfinder

        try:
            pathfinder.load_nvidia_dynamic_lib("nvrtc")  # the library takes what the process has loaded
        except Exception as error:  # what it raises differs by version
            logger.debug("cuda.pathfinder found no NVRTC: %s", error)


# Where lines go; None: logging. The library has one function for all, which is never freed while it may call it.
_log_target: Callable[[str, str], None] | None = None
_log_is_sent = False


@_native.LogCallback
def _log(user: Any, at: int, line: bytes) -> None:
    words, target = line.decode(errors="replace"), _log_target
    if target is not None:
        target(_LEVEL_NAMES[at], words)
    else:
        logger.log(_LOGGING[at], "%s", words)


def set_log(callback: Callable[[str, str], None] | None = None, level: str = "info") -> None:
    """Sends what the library does to `callback(level, line)`, or to `logging.getLogger("catenary")` for None.

    Args:
        callback: one call at a time, from any thread, until the interpreter ends; what it raises is printed and
            dropped.
        level: "warn", "info" or "debug"; "off" logs nothing.
    """
    global _log_target, _log_is_sent
    number = _choice("level", level, _LEVELS)
    if callback is not None and not callable(callback):
        raise ArgumentTypeError(
            f"callback is {shown(callback)}: pass a function that takes a level and a line, or a level by name, as in "
            "set_log(level='info')"
        )
    _log_target, _log_is_sent = callback, True
    check(lib.ctn_set_log(_log, None, number))  # on return the one before is not called again


def reset_log() -> None:
    """The log as CATENARY_LOG says, to stderr."""
    global _log_target, _log_is_sent
    lib.ctn_reset_log()
    _log_target, _log_is_sent = None, False


@atexit.register
def _end_log() -> None:
    # A thread of the library, or what runs at the end of the process, may log after the interpreter has ended.
    if _log_is_sent:
        lib.ctn_set_log(None, None, _LEVELS["off"])
