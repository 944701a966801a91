"""Tests of the training log: lines of JSON; a resumed training continues the log as if it had never been stopped."""

import json

import pytest
from refusals import refusal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from regard import InputError
from regard.training.store.training_log import Log, read_log

SAMPLE = {"source": "a", "translation": "뱀", "reference": "뱀"}


def test_entries_are_lines_of_json(tmp_path):
    log = Log(tmp_path, 0)
    log.add({"step": 1, "loss_nats": 2.5})
    log.add({"step": 1, "dev_bleu": 3.0, "sample": SAMPLE})
    log.close()
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 1]
    assert '"뱀"' in lines[1]


def test_entries_after_the_checkpoint_are_removed(tmp_path):
    log = Log(tmp_path, 0)
    for step in (10, 20, 30):
        log.add({"step": step, "loss_nats": 1.0})
    log.close()
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 40, "loss')  # cut off by a kill
    log = Log(tmp_path, 20)
    log.add({"step": 30, "loss_nats": 2.0})
    log.close()
    assert [(entry["step"], entry["loss_nats"]) for entry in read_log(tmp_path / "log.jsonl")] == [
        (10, 1.0), (20, 1.0), (30, 2.0),
    ]  # fmt: skip


def test_tensorboard_has_the_numbers(tmp_path):
    log = Log(tmp_path, 0)
    for step in (1, 2):
        log.add({"step": step, "loss_nats": 2.0**-step, "sample": SAMPLE})
    log.add({"step": 2, "dev_training_loss_nats": 0.75, "dev_loss_nats": 0.625, "dev_bleu": 12.5})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/training")] == [(1, 0.5), (2, 0.25)]
    names = "loss/dev", "loss/dev_without_label_smoothing", "dev_bleu"
    assert [events.Scalars(name)[0].value for name in names] == [0.75, 0.625, 12.5]


@pytest.mark.parametrize(
    ("second_line", "reason"),
    [
        ("dear diary", "Expecting value: line 1 column 1 (char 0)"),
        *((line, "line 2 has no step") for line in ('{"loss_nats": 2.0}', "[]", '{"step": "1"}', "null")),
        ("[" * 200_000, "its brackets are nested too deeply"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(tmp_path, second_line, reason):
    file = tmp_path / "log.jsonl"
    file.write_text(f'{{"step": 1}}\n{second_line}\n')
    assert refusal(InputError, Log, tmp_path, 0) == f"{file} is not a log that regard wrote: {reason}."
