"""The structs that are read from the C files have the sizes and offsets that the C compiler gives them."""

import ctypes
import subprocess

import pytest

from regard.kernels.attention import Arguments, ByteMask, CompensatedSum, Statistics, Vectors, WeightedSum
from regard.kernels.build import FOLDER, compilers
from regard.kernels.top_tokens import TopTokensArguments
from regard.transformer.decoding import parameters
from regard.transformer.decoding.encode import EncodeArguments
from regard.transformer.decoding.kernel import ProjectionArguments, StepArguments, TokenVectors

STRUCTS = {
    "attention.h": [Arguments, ByteMask, CompensatedSum, Statistics, Vectors, WeightedSum],
    "blocks.h": [
        parameters.BlockParameters,
        parameters.EmbeddingParameters,
        parameters.LinearParameters,
        parameters.NormParameters,
        parameters.StackParameters,
        TokenVectors,
    ],
    "decoding_step.c": [StepArguments],
    "encode.c": [EncodeArguments],
    "project_logits.c": [ProjectionArguments],
    "top_tokens.c": [TopTokensArguments],
}


@pytest.mark.parametrize("file", STRUCTS)
def test_sizes_and_offsets_are_those_of_the_c_compiler(file, tmp_path):
    numbers, expected = [], []
    for struct in STRUCTS[file]:
        name = struct.__name__.removesuffix("Parameters")  # the struct's name in C
        numbers.append(f"sizeof({name})")
        expected.append(ctypes.sizeof(struct))
        for field, *_ in struct._fields_:
            numbers += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
            expected += [getattr(struct, field).offset, getattr(struct, field).size]
    prints = " ".join(f'printf("%d ", (int){number});' for number in numbers)
    source = tmp_path / "sizes.c"
    source.write_text(
        f'#include "{FOLDER / file}"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{ {prints} }}'
    )
    subprocess.run([*compilers()[0], "-w", str(source), "-o", str(tmp_path / "sizes"), "-lm"], check=True)
    printed = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == expected
