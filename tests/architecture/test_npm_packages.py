"""The conformance run unpacks what npm would install, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
from pathlib import Path

import pytest

from tests.conformance import npm_packages
from tests.conformance.installation import INSTALLED
from tests.conformance.npm_packages import read_lock, unpack_all, write_lock

OTHER_LINE = "b @c/b@1.0.0 b3RoZXI=\n"
LOCK = """{"packages": {
  "node_modules/a": {"version": "2.0.0", "integrity": "sha512-YQ=="},
  "node_modules/a/node_modules/b": {"name": "@c/b", "version": "1.0.0", "integrity": "sha512-Yg=="}
}}"""

UNPACKER = (
    sys.executable,
    "-c",
    """
import json, sys, tarfile
for line in sys.stdin:
    file, folder = json.loads(line)
    with tarfile.open(file) as archive:
        [member] = archive.getmembers()
        for member.name in ("index.js", "dist/index.js"):
            archive.extract(member, f"{sys.argv[1]}/{folder}")
""",
)
"""What Node does."""


def test_the_list_holds_each_version_that_is_installed() -> None:
    assert {f"{one.name}@{one.version}" for one in read_lock()} >= set(INSTALLED)


def test_a_version_that_is_not_listed_is_left_to_npm(tmp_path: Path) -> None:
    assert not unpack_all(UNPACKER, tmp_path / "node_modules", ["opencode-ai@0.0.1"])
    assert not (tmp_path / "node_modules").exists()


def test_a_file_that_is_another_than_listed_is_left_to_npm_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm_packages, "LOCK", tmp_path / "list.txt")
    npm_packages.LOCK.write_text(OTHER_LINE)
    file = tmp_path / "@c" / "b" / "-" / "b-1.0.0.tgz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"content")
    monkeypatch.setattr(npm_packages, "REGISTRY", tmp_path.as_uri())
    (tmp_path / "node_modules").mkdir()
    assert not unpack_all(UNPACKER, tmp_path / "node_modules", ["@c/b@1.0.0"])
    assert not (tmp_path / "node_modules").exists()


def test_the_list_is_written_from_what_npm_has_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_packages, "LOCK", tmp_path / "list.txt")
    (tmp_path / ".package-lock.json").write_text(LOCK)
    write_lock(tmp_path)
    assert [tuple(one) for one in read_lock()] == [
        ("a", "a", "2.0.0", "YQ=="),
        ("a/node_modules/b", "@c/b", "1.0.0", "Yg=="),
    ]


def serve_packages(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Put packages of one file each into a registry and the list."""
    lines = []
    for name in names:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo("package/index.js"), io.BytesIO())
        sha512 = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
        lines.append(f"{name} {name}@1 {sha512}\n")
        file = folder / "registry" / name / "-" / f"{name.rpartition('/')[2]}-1.tgz"
        file.parent.mkdir(parents=True)
        file.write_bytes(packed.getvalue())
    monkeypatch.setattr(npm_packages, "LOCK", folder / "list.txt")
    npm_packages.LOCK.write_text("".join(lines))
    monkeypatch.setattr(npm_packages, "REGISTRY", (folder / "registry").as_uri())


PROGRAMS = ["@agentclientprotocol/codex-acp@1", "@anthropic-ai/claude-code@1", "opencode-ai@1"]


@pytest.mark.parametrize("wanted", [[], *([one] for one in PROGRAMS), PROGRAMS])
def test_a_program_is_unpacked_only_where_it_is_wanted(
    wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [one.rpartition("@")[0] for one in PROGRAMS]
    serve_packages(tmp_path, monkeypatch, "a", *names, "es-toolkit")  # nothing loads the last
    assert unpack_all(UNPACKER, tmp_path / "node_modules", wanted)
    unpacked = {one.rpartition("@")[0].partition("/")[0] for one in wanted}
    assert {one.name for one in (tmp_path / "node_modules").iterdir()} == {".bin", "a", *unpacked}
    assert (tmp_path / "node_modules" / "a" / "index.js").exists()


def test_what_cannot_be_unpacked_is_left_to_npm_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_packages(tmp_path, monkeypatch, "a")
    fails = (sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('no space left')")
    assert not unpack_all(fails, tmp_path / "node_modules", [])
    assert not (tmp_path / "node_modules").exists()
