"""A cockpit over a real SSH session that is cut: the swarm goes on without it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.controlling_terminal import ControllingTerminal, wait_for_successor
from tests.e2e.zoea_process import PATIENCE_S, environment, kill_owner
from tests.fakes.processes import find_children, is_alive
from tests.waiting import until_true

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
SSH = shutil.which("ssh")
ROUNDS = range(20 if os.environ.get("ZOEA_SOAK") else 1)
RUN = "-m zoea run --myses 2 --provider scripted"

pytestmark = [
    pytest.mark.timeout(60 + 2 * PATIENCE_S),
    pytest.mark.skipif(not (SSHD and SSH), reason="no SSH on this machine: apt-get install openssh-server"),
    pytest.mark.parametrize("attempt", ROUNDS),
]

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
ClientAliveInterval 1
ClientAliveCountMax 2
"""


@pytest.fixture(autouse=True)
def _runtime(own_runtime: None) -> Iterator[None]:
    yield
    kill_owner()


@dataclass(frozen=True, slots=True)
class SshServer:
    """A server of this user on loopback, with keys of its own."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    def command(self, remote: str) -> list[str]:
        """Return the command that runs `remote` in a terminal on the server."""
        options = (
            f"-F none -tt -p {self.port} -i {self.folder}/key -o IdentitiesOnly=yes -o BatchMode=yes"
            " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        )
        return [str(SSH), *options.split(), "127.0.0.1", remote]

    def is_listening(self) -> bool:
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self.port)) == 0

    def connections(self) -> list[int]:
        """Return the processes of the server that serve a connection."""
        found = [self.process.pid]
        for pid in found:
            found.extend(child for child, command in find_children(pid).items() if "sshd" in command)
        return found[1:]


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    assert SSHD is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("host", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as root it needs its own empty directory
    process = subprocess.Popen(
        [SSHD, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")], stdin=subprocess.DEVNULL
    )
    try:
        yield SshServer(process, folder, port)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("cut", ["client killed", "connection killed", "network silent"])
def test_a_cut_ssh_session_hands_the_swarm_on(cut: str, tmp_path: Path, attempt: int) -> None:
    names = ("HOME", "PATH", "NO_COLOR", "ZOEA_", "PYTHON", "XDG_")
    wanted = {name: value for name, value in environment().items() if name.startswith(names)}
    own_places = shlex.join(f"{name}={value}" for name, value in wanted.items())
    with ssh_server(tmp_path) as server:
        remote = f"cd {shlex.quote(str(Path.cwd()))} && exec env {own_places} {sys.executable} {RUN}"
        until_true(server.is_listening)
        terminal = ControllingTerminal(*server.command(remote))
        client = terminal.process.pid
        match cut:
            case "client killed":
                os.kill(client, signal.SIGKILL)
            case "connection killed":
                for pid in server.connections():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case _:
                os.kill(client, signal.SIGSTOP)
                cut_off = server.connections()
                until_true(lambda: not any(map(is_alive, cut_off)), within=PATIENCE_S)  # looking for more takes long
                assert not server.connections()
                os.kill(client, signal.SIGKILL)
        wait_for_successor(terminal)
        terminal.close()
