# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tests/cluster/cluster, the program that emulates several hosts on one machine."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

CLUSTER = pathlib.Path(__file__).resolve().parent / "cluster"
NAME = f"lockstep-pytest-{os.getpid()}"
MEGABYTE = 1_000_000

# Sends the given number of bytes to a receiver, which replies after it has received all of them.
SENDER = """
import socket, sys
with socket.create_connection((sys.argv[1], 5001)) as link:
    link.sendall(bytes(int(sys.argv[2])))
    link.shutdown(socket.SHUT_WR)
    link.recv(1)
"""
RECEIVER = """
import socket
with socket.create_server(("", 5001)) as server:
    print("ready", flush=True)
    link, _ = server.accept()
    while link.recv(1 << 16):
        pass
    link.sendall(b"x")
"""


def cluster(*arguments, name=NAME):
    """Runs the program for the cluster `name`."""
    return subprocess.run(
        [CLUSTER, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"LOCKSTEP_CLUSTER_NAME": name},
    )


def namespaces(name):
    """Returns the network namespaces of the cluster `name`."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines() if line.startswith(name)]


@pytest.fixture
def clean_up():
    """Removes the cluster after the test."""
    result = cluster("check")
    assert result.returncode == 0, result.stderr
    yield
    cluster("down")


@pytest.mark.requires("CLUSTER")
def test_ranks_run_on_hosts_with_different_names(clean_up):
    assert cluster("up", 3).stdout == "3 hosts, unlimited links\n"
    result = cluster("run", 6, "hostname")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == sorted([f"{NAME}-{i}" for i in (1, 2, 3)] * 2)


@pytest.mark.requires("CLUSTER")
def test_up_replaces_the_hosts_and_down_removes_them(clean_up):
    cluster("up", 3)
    assert cluster("up", 1).returncode == 0
    assert namespaces(NAME) and f"{NAME}-2" not in namespaces(NAME)
    sleeper = subprocess.Popen(
        [CLUSTER, "exec", "1", "sleep", "100"], env=os.environ | {"LOCKSTEP_CLUSTER_NAME": NAME}
    )
    while (
        f"{NAME}-1"
        not in subprocess.run(
            ["ip", "netns", "identify", str(sleeper.pid)], capture_output=True, text=True
        ).stdout
    ):
        time.sleep(0.02)
    assert cluster("down").returncode == 0
    assert namespaces(NAME) == []
    assert sleeper.wait(10) != 0


@pytest.mark.requires("CLUSTER")
def test_clusters_of_different_names_are_independent(clean_up):
    other = f"{NAME}-other"
    cluster("up", 1)
    assert cluster("up", 1, name=other).returncode == 0
    cluster("down", name=other)
    assert f"{NAME}-1" in namespaces(NAME)


@pytest.mark.requires("CLUSTER")
def test_link_does_not_exceed_its_rate(clean_up):
    """2 MB at 20 Mbit/s take 0.8 s; the link sends a burst of 131 kB without delay."""
    cluster("up", 2, "20mbit")
    environment = os.environ | {"LOCKSTEP_CLUSTER_NAME": NAME}
    with subprocess.Popen(
        [CLUSTER, "exec", "2", sys.executable, "-c", RECEIVER],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        start = time.monotonic()
        result = cluster("exec", 1, sys.executable, "-c", SENDER, "10.83.7.2", 2 * MEGABYTE)
        assert result.returncode == 0, result.stderr
        assert time.monotonic() - start > 0.7


@pytest.mark.requires("CLUSTER")
def test_exit_status_of_the_command_is_returned(clean_up):
    cluster("up", 2)
    assert cluster("exec", 2, "bash", "-c", "exit 7").returncode == 7
    assert cluster("run", 2, "bash", "-c", "exit 5").returncode == 5


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "unknown command"),
        (("start",), "unknown command"),
        (("up",), "number of hosts"),
        (("up", "0"), "number of hosts"),
        (("up", "2", "fast"), "is not a rate"),
        (("up", "2", "1gbit; ls"), "is not a rate"),
        (("exec", "1"), "needs a host and a command"),
        (("run", "many", "ls"), "number of ranks"),
        (("run", "2"), "number of ranks"),
        (("exec", "5", "ls"), "does not exist"),
    ],
)
def test_usage_errors_are_one_line(arguments, message):
    result = cluster(*arguments)
    assert result.returncode == 2 and message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_help_lists_every_command():
    result = cluster("--help")
    assert result.returncode == 0
    for command in ("check", "up", "run", "exec", "down"):
        assert f"cluster {command}" in result.stdout
