# SPDX-License-Identifier: BSD-3-Clause
"""A pair of emulated hosts (tests/cluster/cluster) and the faults of the link between them."""

import os
import pathlib
import subprocess

CLUSTER = pathlib.Path(__file__).resolve().parents[1] / "cluster" / "cluster"
LINK_FAULTS = ("interface down", "switch port down", "rate 0")


class Hosts:
    """Two hosts with links of unlimited rate, under a name of their own."""

    def __init__(self, name):
        self.name = name
        self.up()

    @staticmethod
    def reason_against():
        """Returns why this machine cannot emulate hosts; empty if it can."""
        result = subprocess.run([CLUSTER, "check"], capture_output=True, text=True)
        return result.stderr.strip() or "the check failed" if result.returncode else ""

    def call(self, *arguments):
        subprocess.run(
            [CLUSTER, *arguments],
            check=True,
            capture_output=True,
            env=os.environ | {"LOCKSTEP_CLUSTER_NAME": self.name},
        )

    def up(self):
        self.call("up", "2")

    def down(self):
        self.call("down")

    def command(self, ranks, program):
        """Returns the command that runs `program` with ranks on both hosts."""
        return ["env", f"LOCKSTEP_CLUSTER_NAME={self.name}", CLUSTER, "run", ranks, *program]

    def cut(self, host, fault):
        """Makes the link of `host` (1 or 2) carry nothing from now on."""
        if fault == "interface down":
            run("ip", "-n", f"{self.name}-{host}", "link", "set", "eth0", "down")
        elif fault == "switch port down":
            run("ip", "-n", f"{self.name}-switch", "link", "set", f"port{host}", "down")
        else:  # no packet is as small as this burst, so both ends drop every packet
            for space, interface in (
                (f"{self.name}-{host}", "eth0"),
                (f"{self.name}-switch", f"port{host}"),
            ):
                run(
                    "tc",
                    "-n",
                    space,
                    "qdisc",
                    "replace",
                    "dev",
                    interface,
                    "root",
                    "tbf",
                    "rate",
                    "8bit",
                    "burst",
                    "10",
                    "latency",
                    "1ms",
                )


def run(*command):
    subprocess.run(command, check=True, capture_output=True)
