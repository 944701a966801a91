"""Random damage to files: changed bytes, JSON values, tensors, headers, fields of protobuf, lines of text.

`mutated` takes the files of a folder and returns them with one or two files changed. It recognises the format of a file
by the end of its name and its first bytes.
"""

import copy
import gzip
import json
import re
import zlib

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from regard.tensor_file import CHECKSUM, content_checksum
from regard.text.piece_table import bytes_field, protobuf_fields, varint_bytes

DEEP, LONG_INTEGER = "@deep@", "@long integer@"
"""Placeholders for JSON that `json.dumps` does not write: brackets 20,000 deep, and an integer of 5,000 digits."""

VALUES = [
    None, True, False, 0, -1, 1, 2, 3, 7, 100_000, 10**9, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, float("nan"),
    float("inf"), "", "0", "x", "x" * 10_000, "\x1b[31mred\x1b[0m", "two\nlines", "\u202e", "\ud800", "os.system",
    "/etc/passwd", "../../x", [], {}, [[]], [1], [None] * 3, {"rule": "Causal"}, {"several": [{"several": []}]},
    {"tensor": "0"}, {"tensor": "99"}, {"torch": "load", "kind": "dtype"}, "relu", "transformer", DEEP, LONG_INTEGER,
]  # fmt: skip
"""The values that may replace any value of a JSON document."""

DTYPES = [
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.int8,
    torch.complex64,
]

WORDS = [
    "nan", "inf", "-1", "0", "[]", "{}", '""', "10000000000000000000000", "1e999", "true", "1979-05-27", "[[", "=",
    '"\\u001b"', "'x'", "[" * 5000, "9" * 5000, '"""', "\u2028", "\ufeff", "\x1b[2J", "word " * 3000, "\r", "\n\n\n",
    "#", "\x00",
]  # fmt: skip
"""The words that may replace any word of a text."""


UNPARSABLE = (
    ValueError, TypeError, AttributeError, LookupError, RecursionError, EOFError, OSError, zlib.error, SafetensorError
)  # fmt: skip
"""The exceptions of changing a file that an earlier change made unreadable."""


def mutated(files, chance):
    """Return the files, a dict from names to bytes, with one or two of them damaged; None as content = no file."""
    files = dict(files)
    for _ in range(chance.choice([1, 1, 1, 2])):
        name = chance.choice(sorted(files))
        content, how = files[name], chance.random()
        if content is None:
            continue
        if how < 0.04:
            files[name] = chance.choice([None, b""])
        elif how < 0.15:
            files[name] = changed_bytes(content, chance)
        else:
            try:
                files[name] = damage_of(name, content)(content, chance)
            except UNPARSABLE:
                files[name] = changed_bytes(content, chance)  # earlier damage made it unreadable
    return files


def damage_of(name, content):
    """Return the function that damages a file of this name and content in its own format."""
    if content[:2] == b"\x1f\x8b":
        return changed_gzip
    by_ending = {".safetensors": changed_tensor_file, ".json": changed_json, ".jsonl": changed_json_lines}
    by_ending |= {".spm": changed_protobuf, ".toml": changed_text, ".txt": changed_text, ".progress": changed_json}
    ending = "." + name.rpartition(".")[2]
    return by_ending.get(ending, changed_bytes)


def changed_bytes(content, chance):
    """A file's bytes with some changed, cut off, inserted or overwritten by zeros or ones."""
    content = bytearray(content)
    how = chance.randrange(4)
    if how == 0 or not content:
        return bytes(content[: chance.randrange(len(content) + 1)])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(content))
        if how == 3:
            place -= place % 8
            content[place : place + 8] = chance.choice([b"\x00", b"\xff", b"\x7f"]) * chance.choice([1, 2, 4, 8])
        else:
            content[place : place + how - 1] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 3)))
    return bytes(content)


def paths_in(document, path=()):
    """Yield the path of every value of a JSON document."""
    yield path
    parts = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in parts:
        yield from paths_in(value, (*path, key))


def changed(document, chance):
    """A document with one to three values replaced, removed, doubled, renamed or exchanged."""
    document = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        paths = [path for path in paths_in(document) if path]
        if not paths or chance.random() < 0.02:
            return copy.deepcopy(chance.choice(VALUES))
        *way, last = chance.choice(paths)
        place = at(document, way)
        how = chance.random()
        if how < 0.15:
            del place[last]
        elif how < 0.22 and isinstance(place, list):
            place.append(copy.deepcopy(place[last]))
        elif how < 0.25 and isinstance(place, dict):
            place[str(chance.choice(["", "x\x1b[2J", "0", "-1", "layer", "9" * 400, "../x"]))] = place.pop(last)
        elif how < 0.35:
            place[last] = copy.deepcopy(at(document, chance.choice(paths)))
        elif how < 0.75:
            place[last] = similar(place[last], chance)
        else:
            place[last] = copy.deepcopy(chance.choice(VALUES))
    return document


def similar(value, chance):
    """Return a random value of the same type, which a reader of the file may accept."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice([-1, 1, 2, 100])
    if isinstance(value, float):
        return value * chance.choice([-1.0, 0.0, 0.5, 3.0, 1e9])
    if isinstance(value, str):
        return chance.choice([value[:-1], value + "x", value[::-1], value.upper()])
    if isinstance(value, list):
        return value[::-1]
    return dict(reversed(value.items())) if isinstance(value, dict) else value


def at(document, path):
    """Return the value at a path of a JSON document."""
    for key in path:
        document = document[key]
    return document


def dumped(document):
    text = json.dumps(document)
    return text.replace(f'"{DEEP}"', "[" * 20_000 + "]" * 20_000).replace(f'"{LONG_INTEGER}"', "9" * 5_000)


def changed_json(content, chance):
    return dumped(changed(json.loads(content), chance)).encode()


def changed_json_lines(content, chance):
    lines = content.split(b"\n")
    number = chance.randrange(max(len(lines) - 1, 1))
    lines[number] = changed_json(lines[number] or b"{}", chance)
    return b"\n".join(lines)


def changed_text(content, chance):
    """A text with one to three words or the space between two words replaced; bytes that are not UTF-8 at its end."""
    parts = re.split(r"([\s\[\],=]+)", content.decode())  # each second part stands between two words
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        place = chance.randrange(0, len(parts), 2 if chance.random() < 0.8 else 1)
        number = re.search(r"[0-9.]+", parts[place])
        if number and chance.random() < 0.6:
            other = chance.choice(["0", "1", "2", "3", "-0.5", "0.25", "1e9", "1e-9"])
            parts[place] = parts[place].replace(number[0], other, 1)
        else:
            parts[place] = chance.choice(WORDS)
    written = "".join(parts).encode()
    return written + b"\xff\xfe\n" if chance.random() < 0.02 else written


def changed_gzip(content, chance):
    """A gzip file whose text is changed."""
    return gzip.compress(changed_text(gzip.decompress(content), chance), mtime=0)


def changed_protobuf(content, chance):
    """A protobuf message with a field of it, or of a message in it, removed, doubled, moved or given another value."""
    found = list(protobuf_fields(content))
    if not found:
        return changed_bytes(content, chance)
    number, value, raw = found[place := chance.randrange(len(found))]
    how = chance.randrange(6)
    if how == 0:
        raws = [b""]
    elif how == 1:
        raws = [raw, raw]
    elif how == 2 and isinstance(value, int):
        raws = [varint_bytes(number << 3) + varint_bytes(chance.choice([0, 1, 5, 99, 2**31, 2**63, 2**64 - 1]))]
    elif how == 3:
        raws = [varint_bytes(chance.choice([number, 1, 2, 3, 9]) << 3 | 2) + varint_bytes(2**40) + b"x"]
    elif isinstance(value, bytes) and len(raw) > len(value) + 1:
        try:
            raws = [bytes_field(number, changed_protobuf(value, chance))]
        except ValueError:
            raws = [bytes_field(number, changed_bytes(value, chance))]
    else:
        raws = [changed_bytes(raw, chance)]
    return b"".join([*(raw for *_, raw in found[:place]), *raws, *(raw for *_, raw in found[place + 1 :])])


def changed_tensor_file(content, chance):
    """Return a safetensors file with changed tensors or texts and a right checksum, or with a false header."""
    size = int.from_bytes(content[:8], "little")
    header, how = json.loads(content[8 : 8 + size]), chance.random()
    if how < 0.15:
        lie = dumped(changed(header, chance)).encode()
        length = len(lie) if chance.random() < 0.7 else chance.choice([0, 2**20, 2**40, 2**63, 2**64 - 1])
        return length.to_bytes(8, "little") + lie + content[8 + size :]
    tensors, texts = load(content), header.get("__metadata__", {})
    texts.pop(CHECKSUM, None)
    if how < 0.6 or not texts:
        tensors = changed_tensors(tensors, chance)
    else:
        name = chance.choice(sorted(texts))
        texts[name] = (
            dumped(changed(json.loads(texts[name]), chance)) if texts[name][:1] == "{" else chance.choice(WORDS)
        )
    try:
        return save(tensors, {**texts, CHECKSUM: content_checksum(tensors, texts)})
    except (SafetensorError, UnicodeEncodeError):
        return changed_bytes(content, chance)


def changed_tensors(tensors, chance):
    """Tensors of which one has another shape, type, name or other numbers, or is missing."""
    tensors = dict(tensors)
    name = chance.choice(sorted(tensors))
    tensor = tensors[name]
    how = chance.randrange(12)
    if how >= 9 and tensor.numel():
        tensors[name] = tensor.clone()
        tensors[name].view(-1)[chance.randrange(tensor.numel())] = chance.choice([0, 1, -1, 3, 100])
    elif how == 0:
        del tensors[name]
    elif how == 1 and tensor.ndim:
        tensors[name] = tensor.reshape(tensor.shape[::-1])
    elif how == 2 and tensor.ndim:
        axis = chance.randrange(tensor.ndim)
        tensors[name] = tensor.narrow(axis, 0, chance.randrange(tensor.shape[axis] + 1)).contiguous()
    elif how == 3:
        tensors[name] = tensor.to(chance.choice(DTYPES))
    elif how == 4:
        tensors[name] = torch.full_like(tensor, chance.choice([0, 1, -1, 100]))
    elif how == 5 and tensor.is_floating_point():
        tensors[name] = torch.full_like(tensor, chance.choice([float("nan"), float("inf"), 3e38, 1e-45]))
    elif how == 6:
        tensors[chance.choice(["", "x\x1b[2J", "0", "__metadata__", name + ".0"])] = tensors.pop(name)
    elif how == 7:
        tensors[name] = tensors[chance.choice(sorted(tensors))].clone()
    else:
        tensors[name] = tensor[None].clone()
    return tensors
