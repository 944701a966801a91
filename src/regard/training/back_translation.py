"""Back-translation: synthetic sentence pairs from text in the target language alone.

A translator from the target into the source language translates each line. The pair is the translation as source and
the line as target, so that the target of every pair is real text.

    SOURCE   TARGET                   two files with the pairs, line by line, written when all lines are translated
    .TARGET.back-translation/         the pairs so far and the number of lines translated, until then

A run that was stopped or killed is resumed from this folder. It writes the same pairs as a run without interruption,
since the random numbers for a line depend only on the seed and the line number.

Source: Sennrich, Haddow & Birch 2016, "Improving Neural Machine Translation Models with Monolingual Data"; sampling:
Edunov et al. 2018, "Understanding Back-Translation at Scale".
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.atomic_files import sync_folder, write_atomically
from regard.errors import InputError, reason
from regard.json_file import read_json
from regard.text.parallel import clean_lines
from regard.training.stopping import StopHandler
from regard.training.store.checksums import checksum
from regard.training.watcher import Watcher, duration_text
from regard.translation.pieces import UNKNOWN
from regard.translation.search.interface import Search
from regard.translation.translation import Translation
from regard.translation.translator import Translator

LINES_PER_CALL = 256
"""The number of lines that are translated in one call; after each call, the pairs so far are synced to the disk."""

STATE = "state.json"
"""The file with the progress of a run; the pairs so far are in the files source and target beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many lines of a text were read, how many became a pair, and how many were left out for each reason.

    Attributes:
        empty: lines without words, and lines whose translation has none.
        over_long: lines that are too long for the translator.
        cut: lines whose translation was ended at the largest number of pieces.
        unknown: lines whose translation contains the unknown token.
        unlike: lines that are unlike the translator's training texts; each is also counted in `pairs` or another field.
    """

    lines: int = 0
    pairs: int = 0
    empty: int = 0
    over_long: int = 0
    cut: int = 0
    unknown: int = 0
    unlike: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The progress of a back-translation: the counts of the lines so far, and the bytes in its two files of text."""

    counts: Counts = field(default_factory=Counts)
    file_sizes: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class BackTranslation:
    """A back-translation: a text, the translator and search algorithm to use, and two files to write.

    Attributes:
        translator: the folder of a translator from the language of the text into the language of the sources.
        text: the file with the text to translate, one sentence per line.
        source, target: the files to write. `source` gets the translations, `target` the lines of the text.
        int8: translate with 8-bit integers as weights.
    """

    translator: Path
    text: Path
    source: Path
    target: Path
    search: Search
    int8: bool = False

    @property
    def folder(self) -> Path:
        """The folder in which the pairs so far and the progress are stored until all lines are translated."""
        return self.target.with_name(f".{self.target.name}.back-translation")

    def run(self, device: str | None, watcher: Watcher) -> Counts | None:
        """Translate the text and write the pairs; return the counts, or None if a signal stopped the run.

        Args:
            device: cpu, cuda or mps; None = the fastest device available.
        """
        refuse_files(self.source, self.target)
        watcher.busy("reading the text")
        n_lines = sum(1 for _ in clean_lines(self.text))
        if n_lines == 0:
            raise InputError(f"{self.text} has no lines; give at least one.")
        watcher.busy("loading the translator")
        translator = Translator.load(self.translator, device, int8=self.int8)
        self.refuse_foreign(translator)
        try:
            state = self.earlier_state(watcher)
            with StopHandler() as handler:
                state = self.translate_from(state, n_lines, translator, watcher, lambda: handler.requested)
            if state.counts.lines < n_lines:
                return None
            self.finish()
        except OSError as error:
            raise InputError(f"cannot write the pairs to {self.source.parent}: {reason(error)}.") from error
        return state.counts

    def refuse_foreign(self, translator: Translator) -> None:
        if translator.training_texts is None:
            return
        lines = [line for line in islice(clean_lines(self.text), LINES_PER_CALL) if line]
        remarks = [remark for line in lines if (remark := translator.training_texts.script_remark(line))]
        if 2 * len(remarks) > len(lines):
            raise InputError(
                f"{len(remarks):,} of the first {len(lines):,} lines of {self.text} are {remarks[0]}; "
                f"give a translator from the language of {self.text.name}, not {self.translator}."
            )

    def description(self) -> dict[str, Any]:
        """Return the inputs of a run as JSON values; a run with other inputs does not resume an earlier run."""
        files = sorted(path for path in self.translator.iterdir() if path.suffix in (".json", ".safetensors", ".spm"))
        return {
            "text": checksum(self.text),
            "translator": {path.name: checksum(path) for path in files},
            "search": f"{self.search!r}, int8" if self.int8 else repr(self.search),
        }

    def earlier_state(self, watcher: Watcher) -> State:
        """Return the progress of an earlier run with the same inputs, or make a new `folder` without progress."""
        description = self.description()
        try:
            stored = read_json(self.folder / STATE)
            if stored["description"] == description:
                counts = Counts(**stored["counts"])
                watcher.say(f"resuming from line {counts.lines + 1:,}")
                return State(counts=counts, file_sizes=tuple(stored["bytes"]))
            watcher.say("an earlier run had another text, translator or search: its pairs are discarded")
        except (OSError, ValueError, KeyError, TypeError):
            pass  # no earlier run, or one that was killed while its folder was made
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name in ("source", "target"):
            (self.folder / name).touch()
        self.store(State(), description)
        return State()

    def translate_from(
        self, state: State, n_lines: int, translator: Translator, watcher: Watcher, is_stopped: Callable[[], bool]
    ) -> State:
        """Translate the lines that no earlier run translated, in groups; return the new state.

        Args:
            n_lines: the number of lines of the whole text, to estimate the time left.
            is_stopped: called before each group; if it returns True, the remaining lines are not translated.
        """
        description, lines = self.description(), islice(clean_lines(self.text), state.counts.lines, None)
        started_at, n_done_earlier = time.monotonic(), state.counts.lines
        while not is_stopped() and (next_lines := list(islice(lines, LINES_PER_CALL))):
            n_done, time_left = state.counts.lines, ""
            if n_done > n_done_earlier:
                seconds_per_line = (time.monotonic() - started_at) / (n_done - n_done_earlier)
                time_left = f", {duration_text(seconds_per_line * (n_lines - n_done))} left"
            watcher.busy(f"translating back: {n_done:,} of {n_lines:,} lines{time_left}")
            translations = translator.translate(next_lines, search=self.search, split=True, first=n_done + 1)
            state = self.append(state, translations)
            self.store(state, description)
        return state

    def append(self, state: State, translations: list[Translation]) -> State:
        """Append the pairs made from translations to the temporary files of pairs; return the new state."""
        counts, pairs = state.counts, list[tuple[str, str]]()
        for translation in translations:
            outcome = outcome_of(translation)  # the name of a field of `Counts`
            counts = replace(
                counts,
                lines=counts.lines + 1,
                unlike=counts.unlike + bool(translation.unlike_source),  # a tuple of remarks, often empty
                **{outcome: getattr(counts, outcome) + 1},
            )
            if outcome == "pairs":
                synthetic_source, target = " ".join(translation.text.split()), translation.source
                pairs.append((synthetic_source, target))
        sizes = []
        for side, (name, size) in enumerate(zip(("source", "target"), state.file_sizes, strict=True)):
            with (self.folder / name).open("rb+") as file:
                file.truncate(size)  # removes pairs that a killed run wrote but did not count
                file.seek(size)
                file.write("".join(f"{pair[side]}\n" for pair in pairs).encode())
                file.flush()
                os.fsync(file.fileno())
                sizes.append(file.tell())
        return State(counts=counts, file_sizes=(sizes[0], sizes[1]))

    def store(self, state: State, description: Mapping[str, Any]) -> None:
        values = {"description": description, "counts": asdict(state.counts), "bytes": state.file_sizes}
        write_atomically(self.folder / STATE, json.dumps(values))

    def finish(self) -> None:
        for name, path in (("source", self.source), ("target", self.target)):
            (self.folder / name).replace(path)
            sync_folder(path.parent)
        shutil.rmtree(self.folder)


def outcome_of(translation: Translation) -> str:
    """Return the name of the field of `Counts` in which a translated line is counted, e.g. "pairs"."""
    if not translation.source or not translation.text.strip():
        return "empty"
    if translation.untranslated:  # too long for the model, and not divisible
        return "over_long"
    if translation.cut:
        return "cut"
    return "unknown" if UNKNOWN in translation.target_pieces else "pairs"


def refuse_files(source: Path, target: Path) -> None:
    if source.absolute() == target.absolute():
        raise InputError(f"{source} is named for the sources and for the targets; name two files.")
    for path in (source, target):
        if path.exists():
            raise InputError(f"{path} exists; name another file, or delete it.")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}.")
