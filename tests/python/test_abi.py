# SPDX-License-Identifier: Apache-2.0
"""The tables of catenary/_native.py against the declarations of include/catenary/*.h."""

import ctypes
import re

import pytest

import catenary
from catenary import _native

HEADERS = ("catenary.h", "facts.h", "gradient.h", "groups.h", "pack.h", "repack.h", "torch.h")
# The letters of _native.FUNCTIONS by C type.
SCALARS = {"int32_t": "i", "int64_t": "I", "uint32_t": "u", "size_t": "z", "double": "d"}
FIELDS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t, "char": ctypes.c_char}


@pytest.fixture(scope="module")
def headers(root):
    text = "".join((root / "include/catenary" / name).read_text() for name in HEADERS)
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def declarations(headers):
    """name -> (result, arguments) of every exported function."""
    found = {}
    for result, name, arguments in re.findall(r"CTN_API ([\w ]+\*?)\s*(ctn_\w+)\((.*?)\);", headers, re.S):
        callback = re.sub(r"void \(\*\w+\)\([^)]*\)", "void* callback", arguments)
        found[name] = (result.strip(), [] if callback.strip() == "void" else [a.strip() for a in callback.split(",")])
    return found


def letter(argument):
    if "*" in argument or "[" in argument:
        return "t" if re.fullmatch(r"const char\* \w+", argument) else "p"
    kind = argument.split()[0]
    return SCALARS.get(kind) or ("i" if kind.startswith("ctn_") else kind)  # an enumeration


def test_every_function_has_its_prototype(headers):
    declared = declarations(headers)
    assert len(declared) > 70
    # Functions of torch.h have their prototypes where they are used.
    assert set(_native.FUNCTIONS) >= {name for name in declared if not name.startswith("ctn_torch")}
    for name, types in _native.FUNCTIONS.items():
        result, arguments = declared[name]
        want = {"ctn_status": "s", "void": "v", "const char*": "t", "int32_t": "i"}[result]
        want += "".join(map(letter, arguments))
        assert types.replace("P", "p") == want, name


def test_every_struct_has_its_fields(headers):
    declared = dict(re.findall(r"typedef struct (\w+) \{([^}]*)\}", headers))
    for name, struct in _native.STRUCTS.items():
        fields = [part.strip() for part in declared[name].replace("\n", " ").split(";") if part.strip()]
        names = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?$", field) for field in fields]
        assert [m[1] or m[2] for m in names] == [field for field, _ in struct._fields_], name
        for field, (_, kind) in zip(fields, struct._fields_, strict=True):
            assert ctypes.sizeof(kind) == c_size(field), (name, field)


def c_size(field):
    array = re.search(r"\[(\d+)\]$", field)
    if array:
        return int(array[1])
    if "*" in field:
        return 8
    return ctypes.sizeof(FIELDS.get(field.split()[0], ctypes.c_int32))


def test_enumerations_have_the_numbers_of_the_header(headers):
    numbers = {name: int(value) for name, value in re.findall(r"(CTN_\w+) = (\d+)", headers)}
    pairs = {
        "CTN_": catenary.DType,
        "CTN_RECOMPUTE_": catenary.Recompute,
        "CTN_GRADIENT_": catenary.GradientKind,
        "CTN_WEIGHT_": catenary.WeightFormat,
    }
    for prefix, kind in pairs.items():
        for member in kind:
            assert numbers[prefix + member.name.upper()] == member, member
    for member in [*catenary.Role, *catenary.Pass]:
        assert numbers["CTN_" + member.name.upper()] == member


def test_every_status_has_its_class(headers):
    from catenary import errors

    block = re.search(r"typedef enum ctn_status \{(.*?)\}", headers, re.S)[1]
    statuses = {int(n) for n in re.findall(r"= (\d+)", block)} - {0}
    plain = {10, 15, 16}  # cache_io, io, mismatch: Error itself
    assert set(errors._CLASSES) == statuses - plain


def test_version_is_the_project_s(root):
    assert f"VERSION {catenary.__version__} " in (root / "CMakeLists.txt").read_text()
