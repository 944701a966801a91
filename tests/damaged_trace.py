"""Trace files that are changed on purpose, and why `Trace.load` refuses them."""

import json

from refusals import refusal
from safetensors import safe_open
from safetensors.torch import load_file

from regard import InputError, Trace
from regard.tensor_file import write_tensors
from regard.tracing.files.trace_file import FORMAT


def refused(path):
    """Return why a file is refused, with FILE in place of its path."""
    return refusal(InputError, Trace.load, path).replace(str(path), "FILE")


def damage(path):
    """Return what is damaged in a file, from the message with which it is refused."""
    before, what = refused(path).split("FILE is damaged: ")
    assert not before
    assert what.endswith("; save the trace again.")
    return what.removesuffix("; save the trace again.")


def rewrite(path, change):
    """Call `change` on the description in a trace file and on the file's tensors, and write both into the file."""
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()[FORMAT])
    tensors = load_file(path)
    change(about, tensors)
    write_tensors(path, tensors, {FORMAT: json.dumps(about)})
    return path
