#!/usr/bin/env python3
"""Prints what is linked into the binary, as CycloneDX 1.6: every crate with version, licence, checksum and
what it needs in its turn. Called by deploy/archive/build.

Read from Cargo itself: what is linked for the target; what only tests, macros and build scripts use is left
out. The same lock file gives the same bytes.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import tomllib
import uuid

REPO = pathlib.Path(__file__).resolve().parents[2]
# Any constant would do: the number of a bill follows from its content.
SPACE = uuid.UUID("6d6f0a52-2f0b-4d8b-9f0c-6f6a1c3c7f11")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True, help="as rustc names it")
    parser.add_argument("--epoch", required=True, type=int, help="the time to write, in Unix seconds")
    asked = parser.parse_args()
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", asked.target))
    # Metadata has the features that tests want, too, and with them crates that no release has.
    tree = cargo("tree", "--target", asked.target, "--edges", "normal,no-proc-macro", "--prefix", "none",
                 "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    lock = tomllib.loads((REPO / "Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    print(json.dumps(bill(metadata, linked, checksums, asked.epoch), indent=2, sort_keys=True))


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], cwd=REPO, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def named(package):
    """As cargo tree writes it."""
    return package["name"], f"v{package['version']}"


def bill(metadata, linked, checksums, epoch):
    packages = {each["id"]: each for each in metadata["packages"] if named(each) in linked}
    nodes = {each["id"]: each for each in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    needs = {
        package: [
            each["pkg"] for each in nodes[package]["deps"]
            if each["pkg"] in packages and any(kind["kind"] is None for kind in each["dep_kinds"])
        ]
        for package in packages
    }
    crates = [component(packages[each], checksums) for each in needs if each != root]
    subject = component(packages[root], checksums) | {"type": "application"}
    written = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": written, "component": subject},
        "components": sorted(crates, key=lambda each: each["bom-ref"]),
        "dependencies": sorted(
            ({"ref": ref(packages[each]), "dependsOn": sorted({ref(packages[it]) for it in needed})}
             for each, needed in needs.items()),
            key=lambda each: each["ref"]),
    }
    number = uuid.uuid5(SPACE, json.dumps(made, sort_keys=True))
    return made | {"serialNumber": f"urn:uuid:{number}"}


def ref(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    made = {
        "type": "library",
        "bom-ref": ref(package),
        "name": package["name"],
        "version": package["version"],
    }
    # Ours are in no registry.
    if package["source"]:
        made["purl"] = ref(package)
    if package["description"]:
        made["description"] = " ".join(package["description"].split())
    if package["license"]:
        # Cargo's older way to say "or".
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


if __name__ == "__main__":
    main()
