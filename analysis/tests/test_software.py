# SPDX-License-Identifier: BSD-3-Clause
"""Tests that runs which differ in build, libraries or their environment variables are not merged,
and that the difference is named."""

import pytest
from lockstep_report.measure.cases import cases_of, changed_settings, match
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.accuracy import accuracy_table
from lockstep_report.tables.times import time_table
from synthetic import phases, write_run

OF_ALL_RUNS = ["compiler", "compiler_flags", "build_type", "device_library"]
OF_SEVERAL_RANKS = [
    "mpi_version",
    "NCCL_ALGO",
    "UCX_TLS",
    "OMPI_MCA_btl",
    "OMPI_MCA_coll_tuned_allreduce_algorithm",
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM",
    "I_MPI_ADJUST_ALLREDUCE",
]
HARMLESS = [
    "NCCL_DEBUG",
    "NCCL_COMM_ID",
    "OMPI_MCA_ess_base_jobid",
    "I_MPI_INFO_NUMA_NODE_NUM",
    "SLURM_JOB_ID",
    "OMP_NUM_THREADS",
]


def pair(folder, name, ranks=2):
    """Writes two runs that differ in an attribute of /environment."""
    return [
        read_run(
            write_run(
                folder / f"{value}.h5",
                phases(4, *[(0, 0, 0.1, 0, 0, 0)] * ranks),
                60,
                epochs=2,
                environment={name: value},
            )
        )
        for value in ("first", "second")
    ]


@pytest.mark.parametrize("name", OF_ALL_RUNS + OF_SEVERAL_RANKS)
def test_other_software_has_rows_of_its_own(tmp_path, name):
    runs = pair(tmp_path, name)
    rows = time_table(merge_repeats([from_run(run) for run in runs])).rows
    assert [row["runs"] for row in rows] == [1, 1]
    assert {f"overlap ({name} first)", f"overlap ({name} second)"} == {row["mode"] for row in rows}
    assert {row["runs"] for row in accuracy_table(runs).rows} == {1}


@pytest.mark.parametrize(
    "name, ranks", [*((name, 2) for name in HARMLESS), *((name, 1) for name in OF_SEVERAL_RANKS)]
)
def test_software_without_an_effect_is_merged(tmp_path, name, ranks):
    runs = pair(tmp_path, name, ranks)
    assert [point.repeats for point in merge_repeats([from_run(run) for run in runs])] == [2]
    assert [row["runs"] for row in accuracy_table(runs).rows] == [2]


@pytest.mark.parametrize(
    "first, second",
    [("Open MPI v4.1.4", "Open MPI 4.1.4"), ("MPICH Version:      5.0.2", "MPICH 5.0.2")],
)
def test_earlier_forms_of_the_version_of_mpi_are_the_same(tmp_path, first, second):
    runs = [
        read_run(
            write_run(
                tmp_path / f"{i}.h5",
                phases(4, *[(0, 0, 0.1, 0, 0, 0)] * 2),
                60,
                epochs=2,
                environment={"mpi_version": version},
            )
        )
        for i, version in enumerate((first, second))
    ]
    assert [point.repeats for point in merge_repeats([from_run(run) for run in runs])] == [2]


@pytest.mark.parametrize("name", OF_ALL_RUNS + OF_SEVERAL_RANKS)
def test_compare_matches_cases_of_other_software_and_names_it(tmp_path, name):
    first, second = (cases_of([run]) for run in pair(tmp_path, name))
    pairs, *rest = match(first, second)
    assert len(pairs) == 1 and not any(rest)
    assert name in str(changed_settings(*pairs[0]))


def test_parts_of_a_run_with_other_software_are_named(tmp_path):
    """A run that another build resumes is no repeat of one that had this build from the start."""
    for part, commit in ((1, "aaaa"), (2, "bbbb")):
        write_run(
            tmp_path / f"run{'' if part == 1 else '.part2'}.h5",
            phases(2, (0, 0, 0.1, 0, 0, 0)),
            30,
            environment={"device_library": f"oneDNN {part}"},
            attributes={"run_id": "q", "part": part, "git_commit": commit},
        )
    loaded = load_runs([tmp_path / "run.h5"])
    assert len(loaded.runs) == 1
    assert any(
        "options or software changed between the parts (build: aaaa, bbbb; device_library: oneDNN"
        " 1, oneDNN 2)" in note
        for note in loaded.notes
    )
