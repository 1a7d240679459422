# SPDX-License-Identifier: Apache-2.0
"""The C ABI of libcatenary by ctypes: the library, the structs, the prototypes.

The tables `STRUCTS` and `FUNCTIONS` follow include/catenary/*.h; tests/python/test_abi.py compares
both with the headers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

NAME = "libcatenary.so"
SYMBOL = -(2**63)  # CTN_SYMBOL: the chain's symbol as the size of a dimension
TEXT, JSON = 0, 1  # ctn_format

LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
WarnCallback = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


def _struct(name: str, fields: list[tuple[str, type]]) -> type[ctypes.Structure]:
    """A struct; `struct_size`, where it is the first field, is set by the constructor."""

    def init(self, *args, **kwargs):
        ctypes.Structure.__init__(self, *args, **kwargs)
        if fields[0][0] == "struct_size":
            self.struct_size = ctypes.sizeof(self)

    return type(name, (ctypes.Structure,), {"_fields_": fields, "__init__": init})


# fmt: off
_int64s, _int32s, _pointers, _floats = POINTER(c_int64), POINTER(c_int32), POINTER(c_void_p), POINTER(c_float)

Parameter = _struct("ctn_parameter", [
    ("struct_size", c_size_t), ("name", c_char_p), ("role", c_int32), ("dtype", c_int32), ("rank", c_int32),
    ("dims", _int64s), ("strides", _int64s), ("align", c_int64), ("packed", c_int32)])
Ragged = _struct("ctn_ragged", [("struct_size", c_size_t), ("label", c_char), ("group", c_char), ("ends", c_int32)])
Use = _struct("ctn_use", [("value", c_int32), ("labels", c_char_p)])
Output = _struct("ctn_output", [
    ("struct_size", c_size_t), ("value", c_int32), ("dtype", c_int32), ("num_strides", c_int32),
    ("strides", _int64s), ("align", c_int64), ("in_place", c_int32)])
EngineOptions = _struct("ctn_engine_options", [
    ("struct_size", c_size_t), ("cache_directory", c_char_p), ("cache_mode", c_int32), ("line_info", c_int32),
    ("allow_spills", c_int32), ("unfused", c_int32), ("split_k", c_int32), ("force_tile", c_char_p),
    ("warn", WarnCallback), ("user", c_void_p), ("trace_file", c_char_p), ("jit", c_int32), ("helper", c_int32),
    ("helper_program", c_char_p), ("helper_memory_bytes", c_int64), ("helper_seconds", c_int32),
    ("backend", c_int32), ("batch_invariant", c_int32),
    ("nvrtc_build", c_char_p), ("algebraic_norms", c_int32)])
Kernel = _struct("ctn_kernel", [
    ("struct_size", c_size_t), ("name", c_char_p), ("arch", c_char_p), ("cubin", c_void_p),
    ("cubin_bytes", c_size_t), ("threads", c_int32), ("registers", c_int32), ("smem_bytes", c_int64)])
LaunchArgs = _struct("ctn_launch_args", [
    ("struct_size", c_size_t), ("tensors", _pointers), ("num_tensors", c_size_t), ("scalars", _floats),
    ("num_scalars", c_size_t), ("symbol", c_int64), ("workspace", c_void_p), ("stream", c_void_p),
    ("allow_pdl", c_int32), ("disable_pdl", c_int32)])
ReferenceArgs = _struct("ctn_reference_args", [
    ("struct_size", c_size_t), ("tensors", _pointers), ("num_tensors", c_size_t), ("scalars", _floats),
    ("num_scalars", c_size_t), ("symbol", c_int64), ("threads", c_int32)])
Operand = _struct("ctn_operand", [
    ("struct_size", c_size_t), ("name", c_char_p), ("is_output", c_int32), ("role", c_int32), ("dtype", c_int32),
    ("rank", c_int32), ("dims", _int64s), ("strides", _int64s), ("align", c_int64), ("bytes", c_int64),
    ("in_place", c_int32), ("packed", c_int32)])
GradientOptions = _struct("ctn_gradient_options", [
    ("struct_size", c_size_t), ("wanted", POINTER(c_char_p)), ("num_wanted", c_size_t),
    ("outputs", POINTER(c_char_p)), ("num_outputs", c_size_t), ("recompute", c_int32), ("save_f32", c_int32),
    ("save_budget", c_int64), ("f32_weights", c_int32), ("accumulate", c_int32)])
GradientOperand = _struct("ctn_gradient_operand", [
    ("struct_size", c_size_t), ("kind", c_int32), ("index", c_int32), ("is_output", c_int32), ("name", c_char_p),
    ("dtype", c_int32), ("rank", c_int32), ("dims", _int64s), ("strides", _int64s), ("bytes", c_int64),
    ("parameter_dims", _int32s)])
RepackArgs = _struct("ctn_repack_args", [
    ("struct_size", c_size_t), ("format", c_int32), ("dtype", c_int32), ("rows", c_int64), ("columns", c_int64),
    ("weight", c_void_p), ("weight_bytes", c_size_t), ("packed", c_void_p), ("packed_bytes", c_size_t),
    ("groups", c_int64), ("zeros", c_void_p), ("zeros_bytes", c_size_t), ("packed_zeros", c_void_p),
    ("packed_zeros_bytes", c_size_t)])
PackOptions = _struct("ctn_pack_options", [
    ("struct_size", c_size_t), ("expected_sha256", c_char_p), ("verify_all", c_int32)])
PackEntryInfo = _struct("ctn_pack_entry_info", [
    ("struct_size", c_size_t), ("key", c_char * 65), ("chain", c_char * 129), ("arch", c_char * 32),
    ("target", c_char * 64), ("sm_count", c_int32), ("symbol_lo", c_int64), ("symbol_hi", c_int64),
    ("num_kernels", c_size_t), ("code_bytes", c_size_t)])
TorchOptions = _struct(
    "ctn_torch_options",
    [
        ("struct_size", c_size_t),
        ("libtorch_cpu", c_char_p),
        ("libtorch_cuda", c_char_p),
        ("define_schemas", c_int32),
    ],
)
TorchTensor = _struct(
    "ctn_torch_tensor",
    [("dtype", c_int32), ("rank", c_int32), ("sizes", _int64s), ("strides", _int64s), ("address", c_void_p)],
)
TorchDirectOptions = _struct("ctn_torch_direct_options", [
    ("struct_size", c_size_t), ("libc10", c_char_p), ("libtorch_cpu", c_char_p), ("exchange", c_void_p),
    ("tensor_type", c_void_p), ("parameter_type", c_void_p), ("empty_cpu", c_void_p), ("empty_cuda", c_void_p),
    ("dtypes", c_void_p), ("admit", c_void_p)])
PackWriterOptions = _struct("ctn_pack_writer_options", [
    ("struct_size", c_size_t), ("without_explain", c_int32), ("with_sources", c_int32)])

STRUCTS = {struct.__name__: struct for struct in (
    Parameter, Ragged, Use, Output, EngineOptions, Kernel, LaunchArgs, ReferenceArgs, Operand, GradientOptions,
    GradientOperand, RepackArgs, PackOptions, PackEntryInfo, PackWriterOptions, TorchOptions, TorchTensor,
    TorchDirectOptions)}

# Results and arguments by letter: s status, v nothing, i int32, I int64, u uint32, z size_t, d double, t text,
# p pointer, a array of pointers or structs; an upper-case P is the address of a result.
_TYPES = {"s": c_int32, "v": None, "i": c_int32, "I": c_int64, "u": c_uint32, "z": c_size_t, "d": c_double,
          "t": c_char_p, "p": c_void_p, "P": c_void_p}
FUNCTIONS = {
    "ctn_version": "t", "ctn_status_name": "ti", "ctn_last_error": "t", "ctn_last_error_line": "i",
    "ctn_last_error_column": "i", "ctn_string_free": "vp", "ctn_set_log": "sppi", "ctn_reset_log": "v",
    "ctn_chain_parse": "stzP", "ctn_chain_create": "stP", "ctn_chain_destroy": "vp", "ctn_chain_print": "spP",
    "ctn_chain_verify": "sp", "ctn_chain_symbol": "sptII", "ctn_chain_word": "spt", "ctn_chain_parameter": "sppP",
    "ctn_chain_constant": "spdtP", "ctn_chain_dequant": "spiiiIItP", "ctn_packed_bytes": "siIIP", "ctn_repack": "sp",
    "ctn_chain_contract": "sptiiuptP", "ctn_chain_elementwise": "sptpzpztP",
    "ctn_chain_elementwise_by_group": "sptpzpzptP", "ctn_chain_sum_by_group": "sptiptP",
    "ctn_chain_sum": "sptitP", "ctn_chain_reduce": "spttitP", "ctn_chain_cast": "spiitP",
    "ctn_chain_return": "spp", "ctn_nvrtc_add_folder": "st", "ctn_engine_create": "spP", "ctn_engine_destroy": "vp",
    "ctn_engine_compile": "spptP", "ctn_engine_load": "sppipP", "ctn_engine_prepare": "sppipP",
    "ctn_compiled_destroy": "vp", "ctn_compiled_explain": "spiP", "ctn_compiled_kernel_count": "spP",
    "ctn_compiled_kernel": "spzP", "ctn_compiled_kernel_source": "spzP", "ctn_executable_launch": "spp",
    "ctn_executable_workspace_bytes": "spP", "ctn_executable_compiled": "spP", "ctn_executable_destroy": "vp",
    "ctn_device_count": "sP", "ctn_device_use_simulator": "s", "ctn_device_is_simulator": "sP",
    "ctn_device_alloc": "sizP", "ctn_device_free": "vip", "ctn_device_upload": "sippz",
    "ctn_device_download": "sippz", "ctn_stream_create": "siP", "ctn_stream_synchronize": "sip",
    "ctn_stream_destroy": "vip", "ctn_reference_run": "spp",
    "ctn_chain_operands": "spP", "ctn_operands_destroy": "vp", "ctn_operands_count": "spP",
    "ctn_operands_get": "spzP", "ctn_operands_symbol": "spPPP", "ctn_chain_digest": "spP",
    "ctn_chain_factors": "spP", "ctn_chain_shard": "sppzP",
    "ctn_compiled_chain": "spP", "ctn_engine_explain": "spptiP",
    "ctn_chain_gradient": "sppP", "ctn_gradient_destroy": "vp", "ctn_gradient_count": "spP",
    "ctn_gradient_saved_bytes": "spP", "ctn_gradient_chain": "spzPP", "ctn_gradient_operand_count": "spzP",
    "ctn_gradient_binding": "spzzP",
    "ctn_pack_open": "stpP", "ctn_pack_open_memory": "spzpP", "ctn_pack_close": "vp", "ctn_pack_info": "spiP",
    "ctn_pack_entry_count": "spP", "ctn_pack_entry": "spzP", "ctn_pack_compiled": "spzP",
    "ctn_pack_find": "spptP", "ctn_engine_add_pack": "sppi", "ctn_engine_missed": "spP",
    "ctn_pack_writer_create": "spP", "ctn_pack_writer_destroy": "vp", "ctn_pack_writer_add": "spp",
    "ctn_pack_writer_finish": "spt", "ctn_compiled_save": "spt", "ctn_compiled_open": "stpP",
    "ctn_torch_register": "sp", "ctn_torch_direct": "spp", "ctn_torch_add_chain": "spiP", "ctn_torch_add_pack": "spP",
    "ctn_torch_describe": "sIP", "ctn_torch_report": "sP", "ctn_torch_use_engine": "sp",
    "ctn_torch_set_host": "si", "ctn_torch_set_pdl": "si",
    "ctn_torch_bind": "sIpziipP", "ctn_torch_binding_output": "spzp", "ctn_torch_binding_copied": "spzP",
    "ctn_torch_binding_workspace": "spP", "ctn_torch_launch": "spp",
}
# fmt: on


def package_folders() -> list[Path]:
    """The folders of the package: of an editable install also the one that has its binaries."""
    import catenary

    return [Path(folder) for folder in catenary.__path__]


def wheel_folders() -> list[Path]:
    """The folders of this Python environment that have NVIDIA's wheels."""
    # Not Path.is_dir, which raises for a folder that this user may not search.
    return [Path(folder) for folder in sys.path if os.path.isdir(os.path.join(folder, "nvidia"))]


def library_path() -> Path:
    """libcatenary.so: of CATENARY_LIBRARY, a file or folder, else of the package, else of a checkout's build tree.

    Raises ImportError, which names the places that were searched.
    """
    chosen = os.environ.get("CATENARY_LIBRARY")
    places = [Path(chosen)] if chosen else [folder / "lib" for folder in package_folders()]
    if not chosen:
        places.append(Path(__file__).resolve().parents[2] / "build")
    for place in places:
        path = place / NAME if os.path.isdir(place) else place
        if os.path.isfile(path):
            return path
    raise ImportError(
        f"{NAME} is not in {' or '.join(map(str, places))}: install the package with `pip install .`, "
        "or set CATENARY_LIBRARY to the library or its folder"
    )


def _load() -> ctypes.CDLL:
    if sys.maxsize < 2**32 or sys.platform != "linux":
        raise ImportError(f"catenary runs on 64-bit Linux, not on {sys.platform}")
    path = library_path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} cannot be loaded ({error}): set CATENARY_LIBRARY to {NAME} or its folder, or leave it unset"
        ) from None
    for name, types in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"{path} has no {name}: it is of another version than this package; "
                "build or install both from one source"
            ) from None
        function.restype = _TYPES[types[0]]
        function.argtypes = [_TYPES[letter] for letter in types[1:]]
    return library


lib = _load()
version = lib.ctn_version().decode()
