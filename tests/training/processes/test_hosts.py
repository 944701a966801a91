"""Two machines: namespaces of their own networks, joined by a wire. One of them is killed, or its wire is cut.

Only root can make them, and they are removed whatever happens.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.training.settings.settings_file import as_toml
from regard.training.train import train

pytestmark = pytest.mark.skipif(
    not shutil.which("ip") or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, and iproute2's ip"
)

slow = pytest.mark.skipif(not os.environ.get("CI"), reason="takes a minute or two; set CI=true to run it")

MODEL, OPTIMISER = (f"checkpoints/step-24/{name}.safetensors" for name in ("model", "optimiser"))
ADDRESSES = "192.0.2.1", "192.0.2.2"
"""Of a network that exists in documents only (RFC 5737), and here within the namespaces."""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Host:
    """A machine: a namespace with one end of the wire."""

    def __init__(self, number):
        self.number, self.name, self.wire = number, f"regard-{os.getpid()}-{number}", f"wire{number}"
        self.running = None
        ip("netns", "add", self.name)

    def connect(self):
        ip("-n", self.name, "addr", "add", f"{ADDRESSES[self.number]}/24", "dev", self.wire)
        for device in ("lo", self.wire):
            ip("-n", self.name, "link", "set", device, "up")

    def train(self, work, folder):
        """Start the command that is the same on both, but for the machine's number."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        meeting = ["--master-addr", ADDRESSES[0], "--master-port", "29400", "--node-rank", str(self.number)]
        verb = ["-m", "regard.cli.main", "train", str(work / "a.en"), str(work / "a.ko"), "--out", str(folder)]
        self.running = subprocess.Popen(
            ["ip", "netns", "exec", self.name, *launcher, *meeting, *verb, "--config", str(work / "settings.toml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"GLOO_SOCKET_IFNAME": self.wire, "OMP_NUM_THREADS": "1"},
        )

    def ends(self, seconds):
        """Its exit status and all that it said."""
        said, _ = self.running.communicate(timeout=seconds)
        return self.running.returncode, said

    def kill(self):
        """Kill all that runs on it."""
        for process in ip("netns", "pids", self.name).split():
            os.kill(int(process), signal.SIGKILL)

    def cut_wire(self):
        ip("-n", self.name, "link", "set", self.wire, "down")

    def mend_wire(self):
        ip("-n", self.name, "link", "set", self.wire, "up")

    def remove(self):
        self.kill()
        if self.running is not None:
            self.running.communicate()
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
    """Written down for the hosts too; without dropout, whose draws would be others in other processes."""
    found = quick(changes={"dropout": 0.0}, max_steps=24, evaluation={"every_steps": 6, "pairs": 1})
    (work / "settings.toml").write_text(as_toml(found))
    for text, name in zip(texts, ("a.en", "a.ko"), strict=True):
        shutil.copy(text, work / name)
    return found


@pytest.fixture
def whole(hosts, work, config):
    """The folder of a training on both hosts that nobody disturbed; made once."""
    if not (work / "whole").exists():
        start(hosts, work, "whole")
        for host in hosts:
            status, said = host.ends(120)
            assert status == 0, said
    return work / "whole"


def start(hosts, work, name):
    """Start on both; each has a disk of its own."""
    folders = [work / name, work / f"{name}-elsewhere"]
    for host, folder in zip(hosts, folders, strict=True):
        host.train(work, folder)
    return folders


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.005)


def test_two_hosts_train_as_one_process(whole, work, config):
    """The same but for the last digits, and for keys' biases, which have no gradient but rounding."""
    train(work / "a.en", work / "a.ko", work / "alone", config)
    one, two = (load_file(folder / MODEL) for folder in (work / "alone", whole))
    moved = [name for name in one if not name.endswith("key.bias")]
    assert_close({n: two[n] for n in moved}, {n: one[n] for n in moved}, rtol=1e-3, atol=1e-5)
    assert sorted(path.name for path in (work / "whole-elsewhere").iterdir()) == [
        "config.toml", "data", "training.json",
    ]  # fmt: skip


@pytest.mark.parametrize("lost", [1, pytest.param(0, marks=slow)])
def test_a_host_is_killed(hosts, whole, work, lost):
    """The other ends at once, in words; started again, they end as if nothing had been."""
    left, name = 1 - lost, f"killed-{lost}"
    folder, _ = start(hosts, work, name)
    wait_for(folder / "checkpoints" / "step-6")
    hosts[lost].kill()
    since = time.monotonic()
    ended_in_words(*hosts[left].ends(60), lost)
    assert time.monotonic() - since < 45  # seconds, on a machine with other work; not the days of an exchange
    hosts[lost].running.communicate()
    goes_on(hosts, whole, work, name)


@slow
def test_a_host_loses_its_wire(hosts, whole, work):
    """Nobody says that it is gone: the system's probes find out, within a minute."""
    folder, _ = start(hosts, work, "cut")
    wait_for(folder / "checkpoints" / "step-6")
    hosts[1].cut_wire()
    hosts[1].kill()
    ended_in_words(*hosts[0].ends(120), 1)
    hosts[1].running.communicate()
    hosts[1].mend_wire()
    goes_on(hosts, whole, work, "cut")


def ended_in_words(status, said, lost):
    """One line of ours, not a traceback; torchrun's own report comes after it."""
    assert status != 0
    assert re.findall("^regard: .*", said, re.MULTILINE) == [
        f"regard: process {lost + 1} of 2 is gone: it was ended or killed, or its machine or the network failed. "
        "The same command, started again on every machine, goes on from the latest checkpoint."
    ]
    ours = said.partition("regard: ")[0]
    assert "Traceback" not in ours, said


def goes_on(hosts, whole, work, name):
    """What was written is whole, and leads to the same end, bit for bit."""
    folder = work / name
    assert not (folder / MODEL).exists(), "it was not killed on its way"
    start(hosts, work, name)
    for host in hosts:
        status, said = host.ends(120)
        assert status == 0, said
        assert host.number or "going on from step " in said
    for file in (MODEL, OPTIMISER, "model.safetensors"):
        assert (folder / file).read_bytes() == (whole / file).read_bytes(), file
    assert not list(folder.glob("**/.*"))
