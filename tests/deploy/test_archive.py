"""The archive: the same bytes again, sums that agree, and a bill of materials that says what Cargo says."""

import hashlib
import json
import os
import re
import subprocess
import tarfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from mounted import BINARY
from rendered import REPO, ran


def build(folder, **surroundings):
    before = surroundings.pop("before", "true")
    script = f"{before} && exec \"$0\" \"$@\""
    done = subprocess.run(["sh", "-c", script, str(REPO / "deploy/archive/build"), BINARY, str(folder)],
                          env=os.environ | surroundings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    assert done.stdout.strip() == str(archive)
    return archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return build(tmp_path_factory.mktemp("first"))


def test_the_same_binary_gives_the_same_bytes(archive, tmp_path):
    again = build(tmp_path / "second", before="umask 077", TZ="Asia/Tokyo", LC_ALL="C", HOSTNAME="other")
    for path in archive.parent.iterdir():
        assert path.read_bytes() == (again.parent / path.name).read_bytes(), path.name
    # The comparison is one: another time gives other bytes.
    other = build(tmp_path / "third", SOURCE_DATE_EPOCH="1")
    assert archive.read_bytes() != other.read_bytes()


def test_the_sums_are_those_of_the_files(archive):
    ran("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=archive.parent)
    listed = (archive.parent / "SHA256SUMS").read_text()
    assert len(listed.splitlines()) == 2 and archive.name in listed


def test_it_holds_the_binary_and_what_belongs_to_it(archive):
    with tarfile.open(archive) as tar:
        members = {each.name.split("/", 1)[-1]: each for each in tar.getmembers()}
        held = tar.extractfile(members["bin/sessionguard"]).read()
    with open(BINARY, "rb") as binary:
        assert hashlib.sha256(held).digest() == hashlib.sha256(binary.read()).digest()
    wanted = ["LICENSE", "README.md", "sbom.cdx.json", "man/man1/sessionguard-serve.1",
              "completions/sessionguard.bash", "systemd/sessionguard.service", "systemd/sessionguard.socket",
              "systemd/sessionguard.sysusers", "etc/sessionguard/sessionguard.toml.example"]
    assert set(wanted) <= members.keys()
    for name, member in members.items():
        assert (member.uid, member.gid, member.uname) == (0, 0, ""), name
        plain = 0o755 if member.isdir() or name.startswith("bin/") else 0o644
        assert member.mode == plain, name


def test_the_bill_of_materials_is_valid_and_names_every_crate_linked(archive):
    (path,) = archive.parent.glob("*.cdx.json")
    text = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.replace('"library"', '"book"'))
    listed = {f"{each['name']}-{each['version']}" for each in bill["components"]}
    # The compiler leaves the paths of sources in the binary, for messages of panics.
    with open(BINARY, "rb") as binary:
        traces = re.findall(rb"/registry/src/[^/]+/([A-Za-z0-9_-]+-[0-9]+\.[0-9.]+[^/]*)/src/", binary.read())
    linked = {trace.decode() for trace in traces}
    assert len(linked) > 30 and linked <= listed, linked - listed
    # Wanted by tests alone, and barred from the binary.
    assert not {each for each in listed if each.startswith(("ring-", "proptest-"))}
    for each in bill["components"]:
        assert each["licenses"], each["name"]
        assert ("hashes" in each) is ("purl" in each), each["name"]
    refs = {each["bom-ref"] for each in [*bill["components"], bill["metadata"]["component"]]}
    assert {each["ref"] for each in bill["dependencies"]} == refs
