# SPDX-License-Identifier: BSD-3-Clause
"""Checks the recipes in packaging/. Spack, Docker and Apptainer themselves are used only if they
are present."""

import ast
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

PACKAGING = ROOT / "packaging"
RECIPE = PACKAGING / "spack" / "spack_repo" / "lockstep" / "packages" / "lockstep" / "package.py"
# The Spack package of each dependency that CMake searches for. OpenMP and threads come with the
# compiler.
SPACK_NAMES = {
    "MPI": "mpi",
    "OpenMP": None,
    "Threads": None,
    "fmt": "fmt",
    "Boost": "boost",
    "nlohmann_json": "nlohmann-json",
    "SerialHDF5": "hdf5",
    "oneDNN": "onednn",
    "xxHash": "xxhash",
    "GTest": None,
    "CUDAToolkit": "cuda",
}


def read(path):
    return path.read_text(encoding="utf-8")


def calls(name):
    """Returns the first arguments of all calls of a function or method in the recipe of Spack."""
    return [
        node.args[0].value
        for node in ast.walk(ast.parse(read(RECIPE)))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == name or getattr(node.func, "attr", None) == name)
    ]


def test_spack_recipe_has_the_dependencies_of_cmake():
    cmake = read(ROOT / "cmake" / "LockstepDependencies.cmake") + read(
        ROOT / "cmake" / "LockstepCuda.cmake"
    )
    searched = dict(re.findall(r"find_package\((\w+) ?([\d.]*)", cmake))
    specs = {re.split(r"[@ ]", spec)[0]: spec for spec in calls("depends_on")}
    for name, version in searched.items():
        spack = SPACK_NAMES[name]
        if spack is not None:
            least = (re.search(r"@([\d.]+):", specs[spack]) or [None, ""])[1]
            assert not version or version.startswith(least) and least, (
                f"{name} {version}: {specs[spack]}"
            )
    assert "+hl" in specs["hdf5"] and "~mpi" in specs["hdf5"]
    assert "+program_options" in specs["boost"]


def test_spack_recipe_has_the_dependencies_of_the_python_package():
    specs = [
        spec.replace("py-", "").replace("@", ">=").rstrip(":")
        for spec in calls("depends_on")
        if spec.startswith("py-")
    ]
    declared = re.search(
        r"^dependencies = \[(.*)\]$", read(ROOT / "analysis" / "pyproject.toml"), re.MULTILINE
    )[1]
    assert sorted(specs) == sorted(re.findall(r'"([^"]+)"', declared))


def test_spack_recipe_uses_options_of_cmake():
    cmake = "".join(
        read(path) for path in (ROOT / "CMakeLists.txt", ROOT / "cmake" / "LockstepTargets.cmake")
    )
    options = set(re.findall(r"(?:option|set)\((LOCKSTEP_\w+)", cmake))
    assert calls("define") and set(calls("define")) <= options


@pytest.mark.requires("SPACK")
def test_spack_loads_the_recipe():
    environment = os.environ | {"SPACK_DISABLE_LOCAL_CONFIG": "1"}
    result = subprocess.run(
        ["spack", "-e", PACKAGING / "spack", "info", "lockstep"],
        env=environment,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0 and "cuda" in result.stdout, result.stderr


def test_runtime_packages_are_those_of_the_libraries():
    """The list for the final image contains every package of a shared library that a real program
    loads."""
    program = shutil.which("mpirun")
    if program is None or shutil.which("dpkg-query") is None:
        pytest.skip("no mpirun, or not a Debian system")
    result = subprocess.run(
        [PACKAGING / "install-image", "--packages", program], text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    packages = result.stdout.split()
    assert packages == sorted(set(packages)) and {"libc6", "libhwloc15", "libopenmpi3"} <= set(
        packages
    )


def sections(text):
    """Returns the stages of the Apptainer definition: for each the header fields and the
    sections."""
    stages = []
    for part in re.split(r"^(?=Bootstrap:)", text, flags=re.MULTILINE)[1:]:
        pieces = re.split(r"^%(.+)$", part, flags=re.MULTILINE)
        stages.append(
            (
                dict(re.findall(r"^(\w+): (.+)$", pieces[0], re.MULTILINE)),
                dict(zip(pieces[1::2], pieces[2::2])),
            )
        )
    return stages


def test_image_recipes_agree():
    """Both recipes build with the same script, prefix, base images and environment."""
    dockerfile = read(PACKAGING / "Dockerfile")
    build, final = sections(read(PACKAGING / "lockstep.def"))
    assert build[0] == {"Bootstrap": "docker", "From": "{{ BUILD_IMAGE }}", "Stage": "build"}
    assert "files from build" in final[1]
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.MULTILINE))
    assert defaults == dict(
        re.findall(r"(\w+)=(\S+)", build[1]["arguments"] + final[1]["arguments"])
    )
    for text in (dockerfile, build[1]["post"]):
        assert "/source/packaging/install-image /opt/lockstep" in text
    for text in (dockerfile, final[1]["post"]):
        assert "/opt/lockstep/share/lockstep/runtime-packages" in text
    variable = r"(OMPI_\w+=\w+)"
    assert re.findall(variable, dockerfile) == re.findall(variable, final[1]["environment"]) != []


@pytest.mark.parametrize(
    "stage, section", [(0, "post"), (1, "post"), (1, "environment"), (1, "runscript"), (1, "test")]
)
def test_sections_of_the_apptainer_definition_are_shell_scripts(stage, section):
    script = sections(read(PACKAGING / "lockstep.def"))[stage][1][section].replace(
        "{{ PRESET }}", "cpu"
    )
    result = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
    assert result.returncode == 0, result.stderr


def image_builder():
    """Returns the command of an image builder that works, or an empty list."""
    for command in (["docker", "build"], ["podman", "build"], ["buildah", "build"]):
        if (
            shutil.which(command[0])
            and subprocess.run([command[0], "info"], capture_output=True).returncode == 0
        ):
            return command
    return []


@pytest.mark.requires("IMAGES")  # takes minutes and downloads a base image
class TestImages:
    def test_dockerfile_builds(self):
        builder = image_builder()
        assert builder, "no docker, podman or buildah works here"
        subprocess.run(
            [*builder, "-f", PACKAGING / "Dockerfile", "-t", "lockstep-test", "."],
            cwd=ROOT,
            check=True,
        )

    def test_apptainer_definition_builds(self, tmp_path):
        assert shutil.which("apptainer"), "apptainer is not installed"
        subprocess.run(
            ["apptainer", "build", tmp_path / "lockstep.sif", PACKAGING / "lockstep.def"],
            cwd=ROOT,
            check=True,
        )
