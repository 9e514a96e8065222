"""The Windows agent, as far as a Linux machine without PowerShell can check it.

Parsed by a grammar of PowerShell; every command it calls is one of its own or of Windows; its C# is compiled, and
the structures it hands to Windows have the sizes Windows gives them. What they do there, nobody has seen here.
"""

import re
import subprocess
from pathlib import Path

import pytest
import tree_sitter_pwsh
from tree_sitter import Language, Parser

_DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "windows"
_SCRIPTS = ["sessionguard-agent.ps1", "install.ps1"]

# What Windows PowerShell 5.1 on a server brings.
_WINDOWS = set("""
    Add-Content Add-Type Copy-Item ConvertFrom-Json ConvertTo-Json ForEach-Object Get-Acl Get-ChildItem
    Get-CimInstance Get-Date Get-Item Get-ItemProperty Get-ScheduledTask Join-Path Move-Item New-Item New-Object
    New-ScheduledTaskAction New-ScheduledTaskPrincipal New-ScheduledTaskSettingsSet New-ScheduledTaskTrigger
    New-TimeSpan Out-Null Register-ScheduledTask Remove-Item Resolve-Path Select-Object Set-Acl Set-StrictMode
    Split-Path Start-ScheduledTask Start-Sleep Stop-ScheduledTask Test-Path Unregister-ScheduledTask Where-Object
    Write-Output Write-Verbose
""".split())


def _parsed(source):
    return Parser(Language(tree_sitter_pwsh.language())).parse(source)


def _texts(tree, kind):
    found, nodes = [], [tree.root_node]
    while nodes:
        node = nodes.pop()
        if node.type == kind:
            found.append(node.text.decode())
        nodes.extend(node.children)
    return found


def _source(name):
    return (_DEPLOY / name).read_bytes()


@pytest.mark.parametrize("name", _SCRIPTS)
def test_a_script_parses_and_one_with_a_fault_does_not(name):
    source = _source(name)
    assert not _parsed(source).root_node.has_error
    # The last ones: the first stand in a comment, or in the C#.
    for good, bad in (b") {", b") "), (b"if (", b"if (("):
        before, after = source.rsplit(good, 1)
        assert _parsed(before + bad + after).root_node.has_error
    # Windows PowerShell 5.1 reads a file without a mark in the system's own encoding.
    assert source.isascii()


def test_every_command_is_the_scripts_own_or_one_of_windows():
    agent, install = (_parsed(_source(name)) for name in _SCRIPTS)
    own = set(_texts(agent, "function_name"))
    assert {"Get-HostSession", "New-Heartbeat", "Receive-Answer"} <= own
    calls = {"agent": (agent, own), "install": (install, own | set(_texts(install, "function_name")))}
    for tree, known in calls.values():
        called = {name for name in _texts(tree, "command_name") if re.fullmatch(r"\w+-\w+", name)}
        assert len(called) > 20
        assert called <= known | _WINDOWS, called - known - _WINDOWS
    # Newer than 5.1: nothing of it may creep in.
    for name in _SCRIPTS:
        code = "\n".join(line.split("#")[0] for line in _source(name).decode().splitlines())
        assert not re.search(r"\?\?|\?\.|&&|\|\||-Parallel|-AsHashtable", code.split("'@\n", 1)[-1])


_SIZES = """
using System;
using System.Reflection;
using System.Runtime.InteropServices;
static class Sizes {
    static void Main() {
        foreach (var name in new[] { "SessionInfo", "WtsInfo" }) {
            var type = typeof(SessionGuard.Wts).GetNestedType(name, BindingFlags.NonPublic);
            Console.WriteLine(name + " " + Marshal.SizeOf(type));
        }
        Console.WriteLine("ConnectTime " + Marshal.OffsetOf(
            typeof(SessionGuard.Wts).GetNestedType("WtsInfo", BindingFlags.NonPublic), "ConnectTime"));
    }
}
"""


def test_its_csharp_compiles_and_its_structures_have_the_sizes_of_windows(tmp_path):
    code = re.search(r"\$WtsSource = @'\n(.*?)\n'@", _source(_SCRIPTS[0]).decode(), re.S)[1]
    (tmp_path / "wts.cs").write_text(code)
    (tmp_path / "sizes.cs").write_text(_SIZES)
    # C# 5 is what Add-Type of Windows PowerShell 5.1 compiles.
    built = subprocess.run(["mcs", "-langversion:5", "-warnaserror", "-out:sizes.exe", "wts.cs", "sizes.cs"],
                           cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    shown = subprocess.run(["mono", "sizes.exe"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    # On 64 bits: WTS_SESSION_INFOW; WTSINFOW, whose times stand behind 32 bytes and 70 characters, on a multiple of 8.
    assert shown.split() == ["SessionInfo", "24", "WtsInfo", "216", "ConnectTime", "176"]
