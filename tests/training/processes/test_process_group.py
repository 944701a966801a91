"""Tests that several processes train as one process does, with the whole model in each process or with shards.

One call of `accelerate launch` runs all trainings of two processes, since a start takes seconds; test_hosts.py uses
torchrun.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from refusals import refusal
from safetensors.torch import load_file
from torch import nn
from torch.testing import assert_close

from regard import InputError
from regard.training.processes.process_group import Processes
from regard.training.settings.settings_file import as_toml
from regard.training.store.training_log import read_log
from regard.training.train import train

LAST = "checkpoints/step-7"
EXACT = (f"{LAST}/model.safetensors", f"{LAST}/optimiser.safetensors", "model.safetensors")
"""The files that must be equal bit for bit after equal trainings."""

TOGETHER = """
import json, os, shutil, sys
from pathlib import Path
import torch

os.fsync = lambda file: None
from torch import nn
from regard.training.loss import TeacherForced
from regard.training.processes.process_group import Processes
from regard.training.settings.settings_file import read_config
from regard.training.train import train
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer

torch.set_num_threads(1)
work, source, target = map(Path, sys.argv[1:4])
for name in sys.argv[4:]:
    folder, settings = name.split(":")
    if name == "stopped:shared" and os.environ["RANK"] == "0":  # a copy, which one process resumes
        shutil.copytree(work / folder, work / "stopped at step 3")
    trained = train(source, target, work / folder, read_config(work / f"{settings}.toml"), device="cpu")
    with (work / f"{folder}-{os.environ['RANK']}.jsonl").open("a") as file:
        print(json.dumps([trained.step, trained.reason]), file=file)
os.environ["ACCELERATE_USE_FSDP"] = "true"
with Processes.start(torch.device("cpu"), "float32") as processes:
    for sharded in (None, True, False):
        sizes = TransformerConfig.preset("tiny", n_source_tokens=97, n_target_tokens=97, n_layers=1)
        module = processes.wrap(TeacherForced(Transformer(sizes), 0.1), sharded)
        here = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in module.parameters())
        all_of_it = sum(p.numel() for p in module.parameters())
        (work / f"held-{sharded}-{processes.rank}.json").write_text(json.dumps(here / all_of_it))
"""

JOBS = (
    "whole:whole", "shared:shared", "recurrent-shared:recurrent-shared", "onwards-shared:onwards-shared",
    "stopped:shared-3", "stopped:shared", "timed:timed", "timed:timed",
)  # fmt: skip
"""The trainings of two processes, in this order: the folder and the name of its settings."""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture
def together(work, texts, settings):
    """Run the trainings of two processes, once; return the folder that contains their folders."""
    if not (work / "whole").exists():
        for name, config in settings.items():
            (work / f"{name}.toml").write_text(as_toml(config))
        for text, name in zip(texts, ("a.en", "a.ko"), strict=True):
            shutil.copy(text, work / name)
        (work / "together.py").write_text(TOGETHER)
        launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
        usual = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
        command = [*launcher, *usual, *map(str, (work / "together.py", work, work / "a.en", work / "a.ko")), *JOBS]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
        assert done.returncode == 0, done.stderr
    return work


@pytest.fixture
def settings(work, quick, onwards):
    """Return settings by name; they have no dropout, whose random numbers differ between processes."""
    usual = {"accumulate": 2, "max_steps": 7, "schedule": "constant", "evaluation": {"pairs": 1}}
    found = {
        "whole": quick(changes={"dropout": 0.0}, **usual),
        "recurrent": quick(kind="recurrent", changes={"dropout": 0.0}, **usual),
        "onwards": onwards(work / "whole", **usual, learning_rate=0.01, warmup_steps=2, r_drop=1.0),
    }

    def changed(config, **training):
        return replace(config, training=replace(config.training, **training))

    shared = {f"{name}-shared": changed(config, shard=True) for name, config in found.items()}
    return found | shared | {
        "shared": shared["whole-shared"],
        "shared-3": changed(shared["whole-shared"], max_steps=3),
        "timed": changed(found["whole"], max_steps=1000, max_minutes=1e-6),
    }  # fmt: skip


@pytest.fixture
def alone(work, texts, settings):
    """Return a function: alone("whole") trains with these settings in one process, once, and returns the folder."""

    def trained(name):
        folder = work / f"alone-{name}"
        if not folder.exists():
            train(work / "a.en", work / "a.ko", folder, settings[name])
        return folder

    return trained


def assert_like(one, other):
    """Fail unless parameters and losses agree up to rounding, as gradients are summed in different orders.

    Biases of keys are not compared: such a bias adds the same number to all scores of a query, so its true gradient is
    0, and Adam turns the rounding errors into steps.
    """
    mine, theirs = (load_file(folder / EXACT[0]) for folder in (one, other))
    moved = [name for name in mine if not name.endswith("key.bias")]
    assert_close({n: theirs[n] for n in moved}, {n: mine[n] for n in moved}, rtol=1e-3, atol=1e-5)
    logs = [read_log(folder / "log.jsonl") for folder in (one, other)]
    for ours, others in zip(*logs, strict=True):
        losses = [{name: value for name, value in e.items() if name.endswith("loss_nats")} for e in (ours, others)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "folder"),
    [("whole", "whole"), ("whole", "shared"), ("recurrent", "recurrent-shared"), ("onwards", "onwards-shared")],
)
def test_two_processes_train_as_one(together, alone, kind, folder):
    assert_like(alone(kind), together / folder)


@pytest.mark.slow
def test_sharded_training_resumes_exactly(together):
    """The training is stopped after three steps and resumed by as many processes."""
    for name in EXACT[:2]:
        assert (together / "shared" / name).read_bytes() == (together / "stopped" / name).read_bytes(), name


@pytest.mark.slow
def test_one_process_resumes_what_several_sharded(together, alone, settings):
    """Checkpoints are whole: a training may be resumed by any number of processes, sharded or not."""
    train(together / "a.en", together / "a.ko", together / "stopped at step 3", settings["whole"])
    assert_like(alone("whole"), together / "stopped at step 3")


@pytest.mark.slow
def test_all_processes_end_at_the_same_step_when_time_is_over(together):
    """They end when they first exchange conditions; a resumed training is over in every process at once."""
    ended = [10, "its 1e-06 minutes are over (training.max_minutes)"]
    for rank in (0, 1):
        lives = (together / f"timed-{rank}.jsonl").read_text().splitlines()
        assert [json.loads(life) for life in lives] == [ended, ended]


@pytest.mark.slow
@pytest.mark.parametrize(("sharded", "least", "most"), [("None", 0.4, 0.6), ("True", 0.4, 0.6), ("False", 1, 1)])
def test_each_process_has_its_shard(together, sharded, least, most):
    """Without training.shard Accelerate's config decides; here it asks for FSDP."""
    held = [json.loads((together / f"held-{sharded}-{rank}.json").read_text()) for rank in (0, 1)]
    assert sum(held) == pytest.approx(2 if sharded == "False" else 1)
    assert all(least <= share <= most for share in held)


def test_one_process_does_not_shard(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with Processes.start(torch.device("cpu"), "float32") as processes:
        module = nn.Linear(3, 2)
        assert processes.wrap(module, None) is module


@pytest.mark.parametrize(
    ("variable", "name"), [("ACCELERATE_USE_DEEPSPEED", "DeepSpeed"), ("ACCELERATE_USE_MEGATRON_LM", "Megatron-LM")]
)
def test_unsupported_configs_of_accelerate_are_refused(monkeypatch, variable, name):
    monkeypatch.setenv(variable, "true")
    assert refusal(InputError, Processes.start, torch.device("cpu"), "float32") == (
        f"Accelerate's config asks for {name}, and regard supports only DDP and FSDP; "
        "run `accelerate config` anew, or use torchrun."
    )


@pytest.fixture
def launched(monkeypatch):
    """Return a function: launched(n, "cuda:0") makes Accelerate report n processes and this device."""
    taken = []

    def launch(n, device):
        met = SimpleNamespace(num_processes=n, process_index=0, is_main_process=True, device=torch.device(device))
        monkeypatch.setattr("accelerate.Accelerator", lambda **named: met)
        monkeypatch.setattr(torch.cuda, "set_device", taken.append)
        return taken

    return launch


@pytest.mark.parametrize(("name", "taken"), [("cuda:1", [torch.device("cuda", 1)]), ("cuda", []), ("cpu:0", [])])
def test_a_numbered_device_becomes_the_current_one(launched, name, taken):
    found = launched(1, "cuda")
    Processes.start(torch.device(name), "float32")
    assert found == taken


@pytest.mark.parametrize(("n", "device"), [(2, "cuda:1"), (1, "cuda:0")])
def test_a_numbered_device_and_a_launcher_are_refused(launched, n, device):
    launched(n, device)
    assert refusal(InputError, Processes.start, torch.device("cuda:1"), "float32") == (
        "cuda:1 is one device, and a launcher gives every process its own; give --device cuda, and choose the devices "
        "with CUDA_VISIBLE_DEVICES."
    )
