"""Tests of training on two machines, of which one is killed or loses its network.

The machines are two Linux network namespaces with a virtual cable between them. Only root can create namespaces; they
are always removed. torchrun starts one training on both machines; all other trainings are forked from a process that
has imported regard, with the environment variables that torchrun sets.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from itertools import count

import pytest
from forked_programs import SECONDS, wait_for
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.training.settings.settings_file import as_toml
from regard.training.train import train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("ip") or not hasattr(os, "geteuid") or os.geteuid() != 0,
        reason="needs root, and iproute2's ip",
    ),
]

MODEL, OPTIMISER = (f"checkpoints/step-24/{name}.safetensors" for name in ("model", "optimiser"))
ADDRESSES, PORTS = ("192.0.2.1", "192.0.2.2"), count(29400)
"""Addresses that are reserved for documents (RFC 5737), used inside the namespaces; a port for each training."""

TRAINING = """
from regard.cli.main import run
from regard.training.processes import connections

connections.KEEP_ALIVE = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 2}
connections.GRACE_SECONDS = 3
run()
"""
"""A training that finds within seconds that the other host is lost."""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Host:
    """A machine: a network namespace with one end of the virtual cable."""

    def __init__(self, number):
        self.number, self.name, self.wire = number, f"regard-{os.getpid()}-{number}", f"wire{number}"
        ip("netns", "add", self.name)

    def connect(self):
        ip("-n", self.name, "addr", "add", f"{ADDRESSES[self.number]}/24", "dev", self.wire)
        for device in ("lo", self.wire):
            ip("-n", self.name, "link", "set", device, "up")

    def kill(self):
        for process in ip("netns", "pids", self.name).split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def set_wire(self, state):
        ip("-n", self.name, "link", "set", self.wire, state)

    def remove(self):
        self.kill()
        ip("netns", "del", self.name)


@pytest.fixture(scope="module")
def hosts():
    with ExitStack() as stack:
        found = []
        for number in (0, 1):
            try:
                found.append(Host(number))
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
            stack.callback(found[-1].remove)
        one, other = found
        ip("link", "add", one.wire, "netns", one.name, "type", "veth", "peer", "name", other.wire, "netns", other.name)
        for host in found:
            host.connect()
        yield found


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture
def config(work, texts, quick):
    """Return settings without dropout, which differs between processes, and write them to a file for the hosts."""
    found = quick(changes={"dropout": 0.0}, max_steps=24, evaluation={"every_steps": 6, "pairs": 1})
    (work / "settings.toml").write_text(as_toml(found))
    for text, name in zip(texts, ("a.en", "a.ko"), strict=True):
        shutil.copy(text, work / name)
    return found


def arguments(work, folder):
    texts = [str(work / name) for name in ("a.en", "a.ko")]
    return ["train", *texts, "--out", str(folder), "--config", str(work / "settings.toml")]


def folders(work, name):
    """Return the training folder of each host; the hosts share no disk."""
    return [work / name, work / f"{name}-elsewhere"]


@pytest.fixture
def whole(hosts, work, config):
    """Return the folder of a training that torchrun starts on both hosts and that is not interrupted; run once."""
    if not (work / "whole").exists():
        running, port = [], str(next(PORTS))
        for host, folder in zip(hosts, folders(work, "whole"), strict=True):
            launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
            meeting = ["--master-addr", ADDRESSES[0], "--master-port", port, "--node-rank", str(host.number)]
            command = ["ip", "netns", "exec", host.name, *launcher, *meeting, "-m", "regard"]
            environment = os.environ | {"GLOO_SOCKET_IFNAME": host.wire, "OMP_NUM_THREADS": "1"}
            running.append(
                subprocess.Popen(
                    [*command, *arguments(work, folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    env=environment,
                )
            )  # fmt: skip
        for process in running:
            said, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, said
    return work / "whole"


@pytest.fixture
def start(forking, hosts, work):
    """Return a function: start("cut") begins, or resumes, the training "cut"; it returns a program for each host."""

    def programs(name):
        port = str(next(PORTS))
        for host, folder in zip(hosts, folders(work, name), strict=True):
            environment = {
                "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(host.number),
                "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": host.wire,
            }  # fmt: skip
            output = work / f"{port}-{host.number}.txt"
            yield forking.start(TRAINING, arguments(work, folder), environment, output, host.name)

    return lambda name: list(programs(name))


def test_two_hosts_train_as_one_process(whole, work, config):
    """Parameters agree up to rounding; biases of keys are not compared, as their gradient is only rounding errors."""
    train(work / "a.en", work / "a.ko", work / "alone", config)
    one, two = (load_file(folder / MODEL) for folder in (work / "alone", whole))
    moved = [name for name in one if not name.endswith("key.bias")]
    assert_close({n: two[n] for n in moved}, {n: one[n] for n in moved}, rtol=1e-3, atol=1e-5)
    assert sorted(path.name for path in (work / "whole-elsewhere").iterdir()) == [
        "config.toml", "data", "training.json",
    ]  # fmt: skip


@pytest.mark.parametrize("lost", [1, 0])
def test_a_host_is_killed(hosts, start, whole, lost):
    """The other process ends at once with a message; a resumed training ends with the parameters of `whole`."""
    name = f"killed-{lost}"
    programs = start(name)
    wait_for(whole.parent / name / "checkpoints" / "step-6")
    hosts[lost].kill()
    ended_with_message(*programs[1 - lost].ended(), lost)
    goes_on(start, whole, name)


def test_a_host_loses_its_wire(hosts, start, whole):
    """No packet reports the loss: TCP keep-alive finds it, within seconds in this test and a minute by default."""
    programs = start("cut")
    wait_for(whole.parent / "cut" / "checkpoints" / "step-6")
    hosts[1].set_wire("down")
    hosts[1].kill()
    ended_with_message(*programs[0].ended(), 1)
    hosts[1].set_wire("up")
    goes_on(start, whole, "cut")


def ended_with_message(status, said, lost):
    """Fail unless a process ended with an error status and one line as its message, without a traceback."""
    assert status == 2
    assert re.findall("^regard: .*", said, re.MULTILINE) == [
        f"regard: process {lost + 1} of 2 is lost: it was ended or killed, or its machine or the network failed. "
        "The same command, started again on every machine, resumes from the latest checkpoint."
    ]
    assert "Traceback" not in said, said


def goes_on(start, whole, name):
    """Fail unless the training resumes from a complete checkpoint and ends with the same parameters, bit for bit."""
    folder = whole.parent / name
    assert not (folder / MODEL).exists(), "it was not killed on its way"
    for number, program in enumerate(start(name)):
        status, said = program.ended()
        assert status == 0, said
        assert number > 0 or "resuming from step " in said  # only the first process prints
    for file in (MODEL, OPTIMISER, "model.safetensors"):
        assert (folder / file).read_bytes() == (whole / file).read_bytes(), file
    assert not list(folder.glob("**/.*"))
