"""The Compose file and the container files, as far as they can be looked at without an engine."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from mounted import BINARY, DEADLINE, PASSWORD
from rendered import REPO, ran, tool

COMPOSE = REPO / "deploy" / "compose"
CONTAINERFILE = REPO / "deploy" / "container" / "Containerfile"
SERVICES = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]


def checked(path):
    tool_path = pathlib.Path(sys.executable).with_name("check-jsonschema")
    return subprocess.run([tool_path, "--builtin-schema", "vendor.compose-spec", str(path)],
                          capture_output=True, text=True, timeout=60)


def test_the_specification_of_compose_accepts_it(tmp_path):
    assert checked(COMPOSE / "compose.yaml").returncode == 0
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((COMPOSE / "compose.yaml").read_text().replace("restart:", "restarts:"))
    assert checked(wrong).returncode != 0


def test_no_password_is_in_it_and_each_that_it_wants_is_in_the_example():
    text = (COMPOSE / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+):\?", text))
    assert wanted and set(re.findall(r"\$\{(\w+)", text)) == wanted, "one that is empty must stop it"
    example = (COMPOSE / "env.example").read_text()
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == wanted
    assert not re.findall(r"^\w+=.+$", example, re.MULTILINE)
    ran("git", "check-ignore", "-q", "deploy/compose/.env", cwd=REPO)


def test_services_name_what_is_there():
    for name, service in SERVICES.items():
        needed = service.get("depends_on", {})
        assert needed.keys() <= SERVICES.keys(), name
        for other, how in needed.items():
            healthy = how["condition"] == "service_healthy"
            assert not healthy or "healthcheck" in SERVICES[other] or other == "sessionguard", name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (COMPOSE / source).is_file(), volume
        build = service.get("build")
        if build:
            assert (COMPOSE / build["context"] / build["dockerfile"]).is_file()
    # Nobody from outside reaches the two without authentication of their own.
    assert "ports" not in SERVICES["guacd"] and "ports" not in SERVICES["database"]
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_its_configuration_is_good_and_finds_the_services():
    environment = os.environ | {"SESSIONGUARD_DATABASE_PASSWORD": PASSWORD}
    done = subprocess.run([BINARY, "check", "--config", str(COMPOSE / "sessionguard.toml")],
                          env=environment, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    config = (COMPOSE / "sessionguard.toml").read_text()
    for service in ["guacd", "database", "host"]:
        assert re.search(rf'address = "{service}[":]', config) and service in SERVICES
    drain = int(re.search(r'drain_timeout = "(\d+)m"', config).group(1))
    assert SERVICES["sessionguard"]["stop_grace_period"] == f"{drain + 1}m"


def postgres():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not found or os.geteuid() != 0:
        pytest.skip("needs PostgreSQL, and root to run it as somebody else")
    return found[-1]


def test_the_databases_are_made_with_the_roles_that_use_them(tmp_path):
    programs = postgres()
    tool("setpriv")
    # PostgreSQL refuses to be root.
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o755)
    data = tmp_path / "data"
    data.mkdir()
    shutil.chown(data, "nobody", "nogroup")
    somebody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    ran(*somebody, str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync")
    ran(*somebody, str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(data / "log"),
        "-o", f"-c listen_addresses= -c unix_socket_directories={data} -c fsync=off", "start")
    try:
        # What Guacamole's image writes; a table is enough to see whose it becomes.
        tables = tmp_path / "guacamole.sql"
        tables.write_text("CREATE TABLE guacamole_entity (name text);\n")
        script = (COMPOSE / "databases.sh").read_text().replace("/tables/guacamole.sql", str(tables))
        environment = {"PATH": os.environ["PATH"], "PGHOST": str(data), "POSTGRES_USER": "postgres",
                       "DATABASE_PASSWORD": PASSWORD, "GUACAMOLE_PASSWORD": "it's \\ \"odd\"; --"}
        ran("sh", "-c", script, env=environment)
        ask = ["psql", "-h", str(data), "-U", "postgres", "-At", "-c"]
        owners = "SELECT datname || ' ' || rolname FROM pg_database d JOIN pg_roles r ON r.oid = datdba " \
                 "WHERE rolcanlogin AND datname IN ('guacamole', 'sessionguard') ORDER BY 1"
        assert ran(*ask, owners).split("\n")[:2] == ["guacamole guacamole", "sessionguard sessionguard"]
        owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'guacamole_entity'"
        assert ran(*ask, owner, "guacamole").strip() == "guacamole"
    finally:
        ran(*somebody, str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")


def test_scripts_are_shell():
    for script in [COMPOSE / "databases.sh", COMPOSE / "host" / "start"]:
        ran("sh", "-n", str(script))


def built_from():
    """What the container's build sees, by its own list."""
    kept = []
    for line in (CONTAINERFILE.parent / "Containerfile.dockerignore").read_text().splitlines():
        if line.startswith("!"):
            kept.append(line[1:])
    return kept


def test_the_image_is_built_from_files_that_are_enough(tmp_path):
    for name in built_from():
        source, goal = REPO / name, tmp_path / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, goal) if source.is_dir() else shutil.copy(source, goal)
    # Every target's file is there, and every file that the sources take in.
    ran("cargo", "metadata", "--locked", "--format-version", "1", "--no-deps", cwd=tmp_path)
    taken = 0
    for path in (tmp_path / "src").rglob("*.rs"):
        if "tests" in path.parts or path.name == "tests.rs":
            continue
        for included in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', path.read_text()):
            assert (path.parent / included).is_file(), (path, included)
            taken += 1
    assert taken > 10


def test_the_image_is_a_user_by_number_on_pinned_bases_and_asks_how_it_is():
    text = CONTAINERFILE.read_text()
    for base in re.findall(r"^ARG \w+=(\S+)$", text, re.MULTILINE):
        assert re.fullmatch(r"\w+:[0-9]+\.[0-9.]+-slim(-\w+)?", base), base
    toolchain = re.search(r"^rust-version = \"(.*)\"", (REPO / "Cargo.toml").read_text(), re.MULTILINE).group(1)
    assert f"rust:{toolchain}." in text
    assert re.search(r"^USER (\d+):\1$", text, re.MULTILINE).group(1) == "10001"
    words = re.search(r"CMD \[(.*healthcheck.*)\]", text).group(1)
    ran(BINARY, *[word.strip(' "') for word in words.split(",")][1:], "--help")
    assert text.rstrip().endswith('CMD ["serve"]')
