"""Reading the structs of a C file, to compare them with their mirrors in Python."""

from pathlib import Path


def fields_of(source: Path, name: str) -> list[str]:
    before = source.read_text().partition(f"}} {name};")[0]
    struct = before[before.rindex("typedef struct {") :]
    code = " ".join(line.split("/*")[0] for line in struct.splitlines()[1:])
    parts = [part.partition("[")[0].strip(" *") for part in code.replace(";", ",").split(",")]
    return [part.split()[-1].strip("*") for part in parts if part]
