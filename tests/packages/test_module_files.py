# SPDX-License-Identifier: BSD-3-Clause
"""Loads the installed module files with Lmod and with Environment Modules, as the command `module`
of a shell does.

The programs are those of the machine, or those that `jobs/setup --dev` unpacks into
build/module-programs.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.requires("PACKAGES")
PROGRAMS = {
    "Lmod": ("lmod/usr/share/lmod/lmod/libexec/lmod", "/usr/share/lmod/lmod/libexec/lmod"),
    "Environment Modules": (
        "environment-modules/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
        "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    ),
}


@pytest.fixture(
    scope="module", params=["an installation", 'it\'s a "test" & 50% more'], ids=["space", "quotes"]
)
def prefix(request, install, tmp_path_factory):
    return install("support", tmp_path_factory.mktemp("prefix") / request.param)


@pytest.fixture(params=PROGRAMS)
def module_program(request):
    """Returns the path of the program that prints the shell commands of `module`."""
    unpacked, installed = PROGRAMS[request.param]
    for path in (ROOT / "build" / "module-programs" / unpacked, pathlib.Path(installed)):
        if path.exists():
            return path
    return pytest.fail(f"{request.param} is not available; jobs/setup --dev unpacks it")


@pytest.fixture
def shell(module_program, prefix, tmp_path):
    """Returns a function that runs a script in which `module` works. The variables of the caller's
    modules are not passed."""
    definition = (
        'module() { local commands; commands=$("$MODULE_PROGRAM" bash "$@") || return; eval'
        ' "$commands"; }\n'
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "MODULEPATH": str(prefix / "share" / "modulefiles"),
        "MODULE_PROGRAM": str(module_program),
        "LOCKSTEP_PYTHON": sys.executable,
        "LC_ALL": "C.UTF-8",
    }

    def run(script, **variables):
        return subprocess.run(
            ["bash", "-c", definition + script],
            env=environment | variables,
            text=True,
            capture_output=True,
        )

    return run


def version(prefix):
    names = sorted(path.name for path in (prefix / "share" / "modulefiles" / "lockstep").iterdir())
    assert (
        len(names) == 2
        and names[1] == names[0] + ".lua"
        and re.fullmatch(r"\d+\.\d+\.\d+", names[0])
    ), names
    return names[0]


def test_load_finds_the_command_and_the_libraries(shell, prefix):
    result = shell(
        'module load lockstep; printf "%s\\n" "$(command -v lockstep-report)" "$CMAKE_PREFIX_PATH"'
        ' "$LOADEDMODULES"\nlockstep-report --help'
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        f"{prefix}/bin/lockstep-report",
        str(prefix),
        f"lockstep/{version(prefix)}",
    ], result.stderr
    assert "report" in lines[3]


def test_each_program_reads_the_file_in_its_language(shell, module_program, prefix):
    result = shell('module load lockstep; printf "%s" "$_LMFILES_"')
    suffix = "" if module_program.name == "modulecmd.tcl" else ".lua"
    assert result.stdout == f"{prefix}/share/modulefiles/lockstep/{version(prefix)}{suffix}"


def test_unload_restores_the_environment(shell):
    result = shell(
        'before=$PATH; module load lockstep; [ "$PATH" != "$before" ] || exit 3\nmodule unload'
        ' lockstep; [ "$PATH" = "$before" ] || exit 4; [ -z "${CMAKE_PREFIX_PATH:-}" ] || exit 5'
    )
    assert result.returncode == 0, result.stderr


def test_two_versions_are_not_loaded_together(shell, prefix, tmp_path):
    source = prefix / "share" / "modulefiles" / "lockstep"
    other = tmp_path / "modulefiles" / "lockstep"
    other.mkdir(parents=True)
    for path in source.iterdir():
        for name in (path.name, path.name.replace(version(prefix), "99.0.0")):
            (other / name).write_bytes(path.read_bytes())
    result = shell(
        f'module load lockstep/{version(prefix)}; module load lockstep/99.0.0; printf "%s"'
        ' "$LOADEDMODULES"',
        MODULEPATH=str(other.parent),
    )
    assert len(result.stdout.split(":")) == 1 and "lockstep/" in result.stdout, result.stderr


@pytest.mark.parametrize(
    "is_loaded", [False, True], ids=["dependencies not loaded", "openmpi loaded by the user"]
)
def test_dependencies_are_loaded_and_unloaded(shell, install, tmp_path, is_loaded):
    """LOCKSTEP_MODULES lists them. What the user has loaded remains loaded."""
    own = (
        install("support", tmp_path / "prefix", LOCKSTEP_MODULES="openmpi/4.1.4 hdf5")
        / "share"
        / "modulefiles"
    )
    for name in ("openmpi/4.1.4", "hdf5/1.10"):
        (own / name).parent.mkdir()
        (own / name).write_text(
            f"#%Module1.0\nsetenv WITH_{name[:4].upper()} {name}\n", encoding="utf-8"
        )
    result = shell(
        f'{"module load openmpi; " if is_loaded else ""}module load lockstep; echo "$WITH_OPEN'
        ' $WITH_HDF5"\nmodule unload lockstep; echo "${WITH_OPEN:-none} ${WITH_HDF5:-none}"',
        MODULEPATH=str(own),
    )
    assert result.stdout.splitlines() == [
        "openmpi/4.1.4 hdf5/1.10",
        "openmpi/4.1.4 none" if is_loaded else "none none",
    ], result.stderr


def test_names_of_dependencies_are_checked(build, tmp_path):
    result = subprocess.run(
        ["cmake", "--install", build, "--prefix", tmp_path, "--component", "support"],
        text=True,
        capture_output=True,
        env=os.environ | {"LOCKSTEP_MODULES": "openmpi,hdf5"},
    )
    assert result.returncode != 0 and "'openmpi,hdf5' is not the name of a module" in " ".join(
        result.stderr.split()
    )


@pytest.mark.parametrize("command", ["study", "submit", "status", "download-cifar10"])
def test_scripts_are_commands(shell, prefix, command):
    result = shell(f"module load lockstep; command -v {command}; {command} --help")
    assert result.returncode == 0, result.stderr
    path, *text = result.stdout.splitlines()
    assert path.startswith(f"{prefix}/share/lockstep/jobs/") and command in " ".join(text)


def test_help_and_whatis_describe_the_program(shell):
    for command, text in (("help", "ResNet-18"), ("whatis", "data-parallel training")):
        result = shell(f"module {command} lockstep")
        assert result.returncode == 0 and text in result.stderr + result.stdout, result.stderr
