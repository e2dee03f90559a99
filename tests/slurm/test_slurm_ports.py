# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the ports of several clusters of tests/slurm/cluster at the same time."""

import pathlib
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from slurm_cluster import PROGRAM


@pytest.mark.requires("SLURM")
def test_clusters_have_ports_of_their_own(tmp_path):
    """No port is in the range of outgoing connections, which another process can use at any
    time."""

    def ports(name):
        (tmp_path / name).mkdir()
        command = [PROGRAM, "run", tmp_path / name, "cat", tmp_path / name / "slurm.conf"]
        return re.findall(
            r"Port=(\d+)",
            subprocess.run(command, capture_output=True, text=True, check=True).stdout,
        )

    with ThreadPoolExecutor() as pool:
        found = [
            int(port) for ports_of_cluster in pool.map(ports, "abc") for port in ports_of_cluster
        ]
    assert len(set(found)) == len(found) == 12
    assert max(found) < int(
        pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
        .read_text(encoding="utf-8")
        .split()[0]
    )
