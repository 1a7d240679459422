# SPDX-License-Identifier: Apache-2.0
"""The part of the C ABI (include/catenary/catenary.h) that peers.py needs, by ctypes; with bf16
numbers, device tensors and the reference, since there is no numpy."""
import ctypes
import json
import pathlib
import struct


class LaunchArgs(ctypes.Structure):
    """ctn_launch_args."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("tensors", ctypes.POINTER(ctypes.c_void_p)),
                ("num_tensors", ctypes.c_size_t), ("scalars", ctypes.POINTER(ctypes.c_float)),
                ("num_scalars", ctypes.c_size_t), ("symbol", ctypes.c_int64),
                ("workspace", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("allow_pdl", ctypes.c_int32), ("disable_pdl", ctypes.c_int32)]


class ReferenceArgs(ctypes.Structure):
    """ctn_reference_args."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("tensors", ctypes.POINTER(ctypes.c_void_p)),
                ("num_tensors", ctypes.c_size_t), ("scalars", ctypes.POINTER(ctypes.c_float)),
                ("num_scalars", ctypes.c_size_t), ("symbol", ctypes.c_int64),
                ("threads", ctypes.c_int32)]


class CatenaryError(RuntimeError):
    """A call of the C ABI failed; the text is its message."""


def addresses(values):
    return (ctypes.c_void_p * len(values))(*values)


class Catenary:
    """libcatenary.so."""

    def __init__(self, path):
        # The loader would look for a name without a slash on its own path.
        file = pathlib.Path(path)
        self.lib = ctypes.CDLL(str(file.resolve() if file.exists() else file))
        for name in ("ctn_version", "ctn_status_name", "ctn_last_error"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        for name in ("ctn_chain_destroy", "ctn_engine_destroy", "ctn_executable_destroy",
                     "ctn_compiled_destroy", "ctn_string_free"):
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]
            getattr(self.lib, name).restype = None
        for name in ("ctn_device_free", "ctn_stream_destroy"):
            getattr(self.lib, name).argtypes = [ctypes.c_int32, ctypes.c_void_p]
            getattr(self.lib, name).restype = None

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            kind = self.lib.ctn_status_name(status).decode()
            raise CatenaryError(f"{name}: {kind}: {self.lib.ctn_last_error().decode()}")

    def made(self, name, *arguments):
        """The handle or address that a call returns by its last argument."""
        out = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(out))
        return out

    def parse(self, text):
        data = text.encode()
        return self.made("ctn_chain_parse", data, ctypes.c_size_t(len(data)))

    def version(self):
        return self.lib.ctn_version().decode()


class Executable:
    """A chain on one device. Destroyed with the object."""

    def __init__(self, catenary, text, device=0, stream=None):
        self.catenary = catenary
        chain = catenary.parse(text)
        engine = catenary.made("ctn_engine_create", None)
        try:
            self.handle = catenary.made("ctn_engine_prepare", engine, chain,
                                        ctypes.c_int32(device), ctypes.c_void_p(stream))
        finally:
            catenary.lib.ctn_engine_destroy(engine)
            catenary.lib.ctn_chain_destroy(chain)
        size = ctypes.c_int64()
        catenary.call("ctn_executable_workspace_bytes", self.handle, ctypes.byref(size))
        self.workspace_bytes = size.value

    def close(self):
        self.catenary.lib.ctn_executable_destroy(self.handle)
        self.handle = None

    def plan(self):
        """The names of the plan's kernels' configs, from `explain`."""
        compiled = self.catenary.made("ctn_executable_compiled", self.handle)
        text = self.catenary.made("ctn_compiled_explain", compiled, ctypes.c_int32(1))
        try:
            return json.loads(ctypes.string_at(text.value).decode())
        finally:
            self.catenary.lib.ctn_string_free(text)
            self.catenary.lib.ctn_compiled_destroy(compiled)

    def launch(self, tensors, workspace, stream, pdl):
        """`pdl`: every kernel may start before the previous one in the stream has ended."""
        pointers = addresses(tensors)
        args = LaunchArgs(struct_size=ctypes.sizeof(LaunchArgs), tensors=pointers,
                          num_tensors=len(tensors), workspace=workspace, stream=stream,
                          allow_pdl=int(pdl), disable_pdl=int(not pdl))
        self.catenary.call("ctn_executable_launch", self.handle, ctypes.byref(args))


class DeviceTensor:
    """An allocation of the C ABI with a copy of `data`."""

    def __init__(self, catenary, data):
        self.catenary, self.size = catenary, ctypes.sizeof(data)
        self.address = catenary.made("ctn_device_alloc", 0, ctypes.c_size_t(self.size))
        catenary.call("ctn_device_upload", 0, self.address, data, ctypes.c_size_t(self.size))

    def download(self, into):
        self.catenary.call("ctn_device_download", 0, into, self.address,
                           ctypes.c_size_t(self.size))

    def close(self):
        self.catenary.lib.ctn_device_free(0, self.address)


def to_bf16(value):
    """The 16 bits of the nearest bf16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def numbers(count, seed, scale):
    """Bf16 numbers in [-scale, scale] from a linear congruential generator."""
    values = (ctypes.c_uint16 * count)()
    state = seed * 2654435761 + 1
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        values[i] = to_bf16(((state >> 33) / (1 << 30) - 1) * scale)
    return values


def reference(catenary, text, tensors):
    """Evaluates the chain on the host; the last tensor is its output."""
    chain = catenary.parse(text)
    pointers = addresses([ctypes.addressof(t) for t in tensors])
    args = ReferenceArgs(struct_size=ctypes.sizeof(ReferenceArgs), tensors=pointers,
                         num_tensors=len(tensors), threads=1)
    try:
        catenary.call("ctn_reference_run", chain, ctypes.byref(args))
    finally:
        catenary.lib.ctn_chain_destroy(chain)
