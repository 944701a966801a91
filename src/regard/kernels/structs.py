"""The structs of the C files as ctypes structures, whose fields are read from the C files."""

import ctypes
import re
from typing import Any

from regard.kernels.build import FOLDER

NUMBERS: dict[str, Any] = {
    "char": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def fields_of(file: str, struct: str, **structs: type[ctypes.Structure]) -> list[tuple[str, Any]]:
    """Return the fields of a struct of a C file in this folder, in the form of `ctypes.Structure._fields_`.

    A pointer to numbers is a `c_void_p`, which accepts `tensor.data_ptr()`.

    Args:
        structs: the ctypes class of each other struct that the fields contain or point to, by its name in C.

    >>> fields_of("lanes.h", "Norm")
    Traceback (most recent call last):
    LookupError: lanes.h has no struct Norm.
    """
    code = re.sub(r"/\*.*?\*/", "", (FOLDER / file).read_text(), flags=re.DOTALL)
    definition = re.search(rf"typedef struct {{([^{{}}]*)}} {struct};", code)
    if definition is None:
        raise LookupError(f"{file} has no struct {struct}.")
    types, fields = {**NUMBERS, **structs}, []
    for declaration in definition[1].split(";")[:-1]:  # such as `const float *weight, *bias` or `WeightedSum sums[2]`
        kind, names = declaration.replace("const ", "").split(maxsplit=1)
        for pointer, name, length in re.findall(r"(\*?)(\w+)(?:\[(\d+)\])?", names):
            if pointer:
                fields.append((name, ctypes.POINTER(structs[kind]) if kind in structs else ctypes.c_void_p))
            else:
                fields.append((name, types[kind] * int(length) if length else types[kind]))
    return fields
