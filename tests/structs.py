"""What a C file says of its structs."""

from pathlib import Path


def fields_of(source: Path, name: str) -> list[str]:
    """The fields of a struct, in their order."""
    before = source.read_text().partition(f"}} {name};")[0]
    struct = before[before.rindex("typedef struct {") :]
    code = " ".join(line.split("/*")[0] for line in struct.splitlines()[1:])
    parts = [part.partition("[")[0].strip(" *") for part in code.replace(";", ",").split(",")]
    return [part.split()[-1].strip("*") for part in parts if part]
