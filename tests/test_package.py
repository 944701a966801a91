"""`import regard` imports nothing heavy, and offers every public name."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refusal

import regard

HEAVY = ("torch", "transformers", "matplotlib", "numpy", "jaxtyping")


def loaded_by(program):
    """Run a program; return the slow-to-import packages, such as torch, that it has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_import_regard_imports_nothing_heavy():
    assert loaded_by("import regard") == []


def test_the_command_line_imports_nothing_heavy_until_a_verb_runs():
    assert loaded_by("import regard.cli.main") == []


def test_public_names_import_torch_but_not_transformers():
    loaded = loaded_by("import regard; regard.attend; regard.install; regard.trace")
    assert "torch" in loaded
    assert "transformers" not in loaded


def test_every_name_of_the_stub_is_public_and_can_be_imported():
    stub = ast.parse((Path(regard.__file__).parent / "__init__.pyi").read_text())
    names = {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(regard.__all__)
    assert all(getattr(regard, name).__module__.startswith("regard.") for name in names)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("atend", "; nearest: attend, Pattern, Latents"),
        ("scaled_dot_product_attention", "; nearest: attend"),
        ("zzzz", ""),
    ],
)
def test_an_unknown_name_is_refused(name, nearest):
    assert refusal(AttributeError, getattr, regard, name) == f"module 'regard' has no attribute {name!r}{nearest}"


def undocumented(name: str) -> list[str]:
    """Return the names without a docstring among a public object and its public methods and properties."""
    owner = getattr(regard, name)
    members = {} if not inspect.isclass(owner) else {
        f"{name}.{key}": getattr(owner, key)
        for key, value in vars(owner).items()
        if not key.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
    }  # fmt: skip
    return [key for key, part in {name: owner, **members}.items() if not inspect.getdoc(part)]


def test_every_public_name_and_method_has_a_docstring():
    assert [member for name in regard.__all__ for member in undocumented(name)] == []


def test_the_citation_names_the_version():
    citation = (Path(__file__).parents[1] / "CITATION.cff").read_text()
    assert f"\nversion: {regard.__version__}\n" in citation
