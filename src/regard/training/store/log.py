"""What a training writes down as it goes: a line of JSON for every so many steps, and TensorBoard's events.

{"step": 400, "epoch": 3, "loss_nats": 2.1, "learning_rate": 0.001, "tokens_per_second": 9000, …}
{"step": 400, "epoch": 3, "dev_loss_nats": 1.9, "dev_bleu": 31.2, "averaged": 5, "sample": {…}, …}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.atomic_files import write_whole
from regard.errors import InputError

Entry = Mapping[str, Any]


class Log:
    """The log of a training in its folder; what an earlier run wrote past the step it is taken up at is forgotten."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "log.jsonl"
        kept = [entry for entry in read_log(self.path) if entry["step"] <= step]
        text = "".join(f"{as_line(entry)}\n" for entry in kept)
        write_whole(self.path, text)
        self.events = event_writer(folder / "tensorboard", step)

    def add(self, entry: Entry) -> None:
        """Write an entry, which has its step under `step`."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{as_line(entry)}\n")
        if self.events is not None:
            for name, value in entry.items():
                if name != "step" and isinstance(value, int | float):
                    self.events.add_scalar(name, value, entry["step"])
                elif name == "sample":
                    self.events.add_text(name, f"{value['source']}\n\n{value['translation']}", entry["step"])

    def close(self) -> None:
        """Write what is still held back."""
        if self.events is not None:
            self.events.close()


def as_line(entry: Entry) -> str:
    """An entry as a line of JSON that people can read, whatever their script."""
    return json.dumps(dict(entry), ensure_ascii=False)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of a log; a last line cut off by a killed run is left out.

    Raises:
        InputError: it is not a log of ours.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines[:-1]]
    except ValueError as error:
        raise InputError(f"{path} is not a log that regard wrote: {error}.") from error


def event_writer(folder: Path, step: int) -> Any:
    """TensorBoard's writer; None where it is not installed. Events past the step are hidden by TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)
