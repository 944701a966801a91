"""How much each head attends to the previous token, the first token and so on, over many texts: `regard scan`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

import torch

from regard.atomic_files import write_atomically
from regard.effects.roles import ROLES, RoleSums
from regard.errors import InputError, TooLongError
from regard.json_file import read_json
from regard.tracing.model_loading import LoadedModel
from regard.tracing.roles import Roles
from regard.tracing.run import trace
from regard.tracing.tokens.readable_tokens import known_tokens

FORMAT = "regard scan"

COUNTS = ("n_lines", "n_texts", "n_tokens", "n_truncated", "n_words", "n_known")
"""The attributes of a `Scan` that are stored in its file as "counts", in this order."""


@dataclass(slots=True)
class Scan:
    """Sums of the attention weights of each head by role, over the texts read so far.

    A role is a kind of key: the previous token, the first token, and so on.

    Attributes:
        n_lines: how many lines were read, blank lines included.
        n_texts: how many lines were not blank; each is a text.
        n_tokens: how many tokens the texts had together.
        n_truncated: how many texts were too long for the model; only their beginnings were used.
        n_words: how many of the `n_tokens` tokens (words, or pieces of words) are not special tokens.
        n_known: how many of the `n_words` tokens the model knows (see `known_tokens`).
        heads: the name of each head; empty before the first text.
        role_sums: None before the first text.
        source: a checksum of the lines read so far; empty before the first line.
    """

    model: str
    n_lines: int = 0
    n_texts: int = 0
    n_tokens: int = 0
    n_truncated: int = 0
    n_words: int = 0
    n_known: int = 0
    heads: tuple[str, ...] = ()
    role_sums: RoleSums | None = None
    source: str = ""

    def skip(self, lines: Iterator[str]) -> None:
        """Skip the lines that were read before this scan was stopped; raise InputError if they are other lines."""
        source = ""
        for line in islice(lines, self.n_lines):
            source = checksum(source, line)
        if source != self.source:
            raise InputError(
                f"the first {self.n_lines:,} lines are not those that the stopped scan has read; give the same file, "
                "or another name with --out."
            )

    def read(self, loaded: LoadedModel, lines: Iterable[str]) -> Iterator[None]:
        """Call `add` with each line that is not blank; yield after each line, for the caller to report progress."""
        for line in lines:
            if line.strip():
                self.add(loaded, line)
            self.n_lines += 1
            self.source = checksum(self.source, line)
            yield

    def add(self, loaded: LoadedModel, text: str) -> None:
        """Run the model on one text (or its beginning, if it is too long), and add its sums and counts to this scan."""
        try:
            traced = trace(loaded.model, text, tokenizer=loaded.tokenizer)
        except TooLongError:
            traced = trace(loaded.model, text, tokenizer=loaded.tokenizer, truncate=True)
            self.n_truncated += 1
        names, sums = traced.role_sums()
        self.heads = names
        self.role_sums = sums if self.role_sums is None else self.role_sums + sums
        self.n_texts += 1
        self.n_tokens += len(traced.tokens)
        n_known, n_words = known_tokens(traced.tokens)
        self.n_known += n_known
        self.n_words += n_words

    def roles(self) -> Roles:
        """Return how much each head attends to the previous token, the first token, and so on, over all texts."""
        if self.role_sums is None:
            raise InputError("there is no text in the file; give a file with a text on each line.")
        return Roles(self.heads, self.role_sums.means())

    def save(self, path: Path) -> None:
        """Write the scan so far into a file; a scan that `load` reads from the file can be continued."""
        sums = None if self.role_sums is None else [self.role_sums.sums.tolist(), self.role_sums.n_queries.tolist()]
        counts = [getattr(self, name) for name in COUNTS]
        document = {"format": FORMAT, "model": self.model, "source": self.source, "counts": counts, "heads": self.heads}
        write_atomically(path, json.dumps({**document, "sums": sums}))

    @classmethod
    def load(cls, path: Path, model: str) -> "Scan | None":
        """Return the scan that `save` wrote for the same model; None if there is none."""
        try:
            document = read_json(path)
            if (document["format"], document["model"]) != (FORMAT, model):
                return None
            heads = tuple(document["heads"])
            sums = None
            if document["sums"] is not None:
                sums_of_weights, n_queries = document["sums"]
                sums = RoleSums(torch.tensor(sums_of_weights, dtype=torch.float64), torch.tensor(n_queries))
                if {sums.sums.shape, sums.n_queries.shape} != {(len(ROLES), len(heads))}:
                    return None
            counts = dict(zip(COUNTS, document["counts"], strict=True))
            if any(type(count) is not int or count < 0 for count in counts.values()):
                return None
            return cls(model, heads=heads, role_sums=sums, source=str(document["source"]), **counts)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, IndexError):
            return None


def checksum(of_earlier_lines: str, line: str) -> str:
    return sha256(f"{of_earlier_lines}\n{line}".encode()).hexdigest()
