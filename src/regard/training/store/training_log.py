"""The log of a training: a line of JSON every `evaluation.log_steps` steps and at every evaluation.

If TensorBoard is installed, the same numbers are also written as TensorBoard events. `loss_nats` and
`dev_training_loss_nats` both have label smoothing, so that they can be compared; TensorBoard has them as loss/training
and loss/dev. Only `loss_nats` is computed with dropout and R-Drop. `dev_loss_nats` is the dev loss without label
smoothing, the logarithm of the perplexity.

    {"step": 400, "epoch": 3, "loss_nats": 2.1, "learning_rate": 0.001, "tokens_per_second": 9000, …}
    {"step": 400, "epoch": 3, "dev_loss_nats": 1.9, "dev_bleu": 31.2, "averaged": 5, "sample": {…}, …}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.atomic_files import write_atomically
from regard.errors import InputError
from regard.json_file import parse_json

Entry = Mapping[str, Any]
"""An entry of the log: "step" and other numbers by name; after an evaluation, also texts under the name "sample"."""

TENSORBOARD_NAMES = {
    "loss_nats": "loss/training",
    "dev_training_loss_nats": "loss/dev",
    "dev_loss_nats": "loss/dev_without_label_smoothing",
}
"""Numbers with different names in the log and in TensorBoard: {name in the log: name in TensorBoard}."""


class Log:
    """Writes log.jsonl and TensorBoard events to the folder of a training.

    Args:
        step: the step from which training resumes, 0 for a new training. Entries of the log for later steps, which an
            earlier run wrote, are removed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "log.jsonl"
        entries = [entry for entry in read_log(self.path) if entry["step"] <= step]
        write_atomically(self.path, "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries))
        self.events = event_writer(folder / "tensorboard", step)

    def add(self, entry: Entry) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(dict(entry), ensure_ascii=False)}\n")
        if self.events is not None:
            for name, value in entry.items():
                if name != "step" and isinstance(value, int | float):
                    self.events.add_scalar(TENSORBOARD_NAMES.get(name, name), value, entry["step"])
                elif name == "sample":
                    self.events.add_text(name, f"{value['source']}\n\n{value['translation']}", entry["step"])

    def close(self) -> None:
        if self.events is not None:
            self.events.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a log; an incomplete last line, which a killed run may leave, is ignored."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    try:
        entries = [parse_json(line) for line in lines[:-1]]
    except ValueError as error:
        raise InputError(f"{path} is not a log that regard wrote: {error}.") from error
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or type(entry.get("step")) is not int:
            raise InputError(f"{path} is not a log that regard wrote: line {number} has no step.")
    return entries


def event_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)
