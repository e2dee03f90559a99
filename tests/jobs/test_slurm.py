# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the Slurm scripts without a cluster: the jobs that `submit --dry-run` prints, and array
tasks with stubs of srun and scontrol. Of the sites in jobs/slurm/sites, only the options of sbatch
are tested; their values are facts about clusters that these tests cannot check.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUBMIT = ROOT / "jobs" / "slurm" / "submit"
TASK = ROOT / "jobs" / "slurm" / "task.sbatch"
TABLE = (
    "# name\tranks\tcommand\none\t1\ttrain --global-batch 64\n\n"
    "two\t2\ttrain --batch-per-rank 32\ntwo-big\t2\ttrain --batch-per-rank 128\n"
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.tsv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def submit(*arguments, **variables):
    """Runs `submit --dry-run` with additional environment variables, without lockstep unless
    LOCKSTEP_BIN is one of them."""
    environment = os.environ | {"LOCKSTEP_BIN": "/nowhere", "LOCKSTEP_ACCOUNT": ""} | variables
    return subprocess.run(
        [SUBMIT, "--dry-run", *map(str, arguments)], capture_output=True, text=True, env=environment
    )


@pytest.fixture
def program(tmp_path):
    """A function that writes a stub of lockstep and returns the environment variable that names it.
    The stub records its arguments, prints `line` to stderr and exits with `status`."""

    def make(status, line=""):
        path = tmp_path / "lockstep"
        path.write_text(
            f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/lockstep.calls"\n'
            f"echo '{line}' >&2\nexit {status}\n",
            encoding="utf-8",
        )
        path.chmod(0o755)
        return {"LOCKSTEP_BIN": str(path)}

    return make


def options(line):
    """Returns {option: value} of a command line."""
    return {
        word.partition("=")[0]: word.partition("=")[2]
        for word in shlex.split(line)
        if word.startswith("--")
    }


def test_submit_creates_one_array_per_number_of_ranks(table, tmp_path):
    result = submit("--repeats", 3, "--at-once", 2, "--dir", tmp_path / "out", table)
    assert result.returncode == 0, result.stderr
    *arrays, report = [options(line) for line in result.stdout.splitlines()]
    assert (
        report["--dependency"] == "afterany:JOB1:JOB2"
        and "report.sbatch" in result.stdout.splitlines()[-1]
    )
    assert [(a["--ntasks"], a["--nodes"], a["--array"]) for a in arrays] == [
        ("1", "1", "1-3%2"),
        ("2", "1", "4-9%2"),
    ]
    for array in arrays:
        assert "--gpus-per-task" not in array  # every rank selects its GPU by its local rank
        assert (
            array["--signal"] == "TERM@120"
            and array["--open-mode"] == "append"
            and "--requeue" in array
        )
        assert array["--output"].endswith("logs/%A_%a.log")


def test_ranks_are_distributed_evenly_over_nodes(table, tmp_path):
    table.write_text("six\t6\ttrain --global-batch 96\n", encoding="utf-8")
    array = options(submit("--repeats", 1, "--dir", tmp_path / "out", table).stdout.splitlines()[0])
    assert (array["--nodes"], array["--ntasks-per-node"]) == (
        "2",
        "3",
    )  # the site `generic` has 4 ranks per node


def test_options_of_sbatch_are_passed(table, tmp_path):
    named = {
        "--partition": "cpu",
        "--qos": "short",
        "--mail-type": "END,FAIL",
        "--mail-user": "a@b.c",
    }
    *arrays, report = map(
        options,
        submit(
            "--exclusive",
            "--partition",
            "cpu",
            "--qos=short",
            "--mail-type=END,FAIL",
            "--mail-user",
            "a@b.c",
            "--sbatch",
            "--constraint=icelake  --exclude=n1",
            "--dir",
            tmp_path / "out",
            table,
        ).stdout.splitlines(),
    )
    for job in (*arrays, report):
        assert job.items() >= named.items()
    assert all(array.keys() >= {"--exclusive", "--constraint", "--exclude"} for array in arrays)
    assert not {"--exclusive", "--constraint"} & report.keys()


@pytest.mark.parametrize("option", ["--mem=64G", "--mem-per-cpu=1G", "--mem-per-gpu=8G"])
def test_memory_of_the_user_replaces_that_of_the_site(table, tmp_path, option):
    """sbatch accepts only one of these options."""
    *arrays, report = map(
        options, submit("--sbatch", option, "--dir", tmp_path / "out", table).stdout.splitlines()
    )
    for array in arrays:
        assert [f"{name}={value}" for name, value in array.items() if name.startswith("--mem")] == [
            option
        ]
    assert "--mem-per-cpu" in report


def complete(folder, point):
    """Writes the marker of a complete run, without its experiment, and its run file."""
    (folder / f"{point}.70_1.0.h5").touch()
    (folder / f"{point}.done").write_text(f"{point}.70_1.0.h5\n", encoding="utf-8")


def test_complete_points_are_not_submitted(table, tmp_path):
    complete(tmp_path, "two-2")
    lines = submit("--repeats", 2, "--dir", tmp_path, table).stdout.splitlines()
    assert [options(line)["--array"] for line in lines[:-1]] == ["1-2%4", "3,5-6%4"]


def test_complete_study_is_not_submitted(table, tmp_path):
    for name in ("one", "two", "two-big"):
        complete(tmp_path, f"{name}-1")
    result = submit("--repeats", 1, "--dir", tmp_path, table)
    assert result.returncode == 0
    assert "one-1.done does not contain the options and the build of the run" in result.stderr
    assert result.stdout == f"all points are complete; the results are in {tmp_path}\n"


def test_complete_points_are_compared_or_left_to_their_tasks(table, tmp_path):
    """A task and `submit` compare the same experiment. Without a program that can run here, the
    task compares alone."""
    stub = tmp_path / "stub"
    stub.write_text(
        '#!/bin/bash\n[ "$1" != help ] || { echo "build=$BUILD"; printf "arguments=%s\\n"'
        ' "${*:3}"; }\n',
        encoding="utf-8",
    )
    stub.chmod(0o755)
    out = tmp_path / "out"
    out.mkdir()
    here = {"LOCKSTEP_BIN": str(stub), "BUILD": "1"}
    assert run_task(tmp_path, table, 1, 0, directory=out, **here).returncode == 0
    marker = (out / "one-1.done").read_text(encoding="utf-8")
    assert marker.startswith(
        "one-1.77_1.0.h5\nlauncher=srun, site generic\nbuild=1\narguments=1 train"
    )
    command = ["--repeats", 3, "--launcher", "srun", "--dir", out, table, "--", "--epochs", "2"]
    without = submit(*command)
    assert options(without.stdout.splitlines()[0])["--array"] == "1-3%4"
    assert (
        "one-1.done was not compared with the present options: no lockstep program was found; set"
        " LOCKSTEP_BIN" in without.stderr
    )
    assert options(submit(*command, **here).stdout.splitlines()[0])["--array"] == "2-3%4"
    change = "one-1 is complete, but the present command changes build from '1' to '2'"
    for result in (
        submit(*command, **here | {"BUILD": "2"}),
        run_task(tmp_path, table, 1, 0, directory=out, **here | {"BUILD": "2"}),
    ):
        assert result.returncode == 1 and change in result.stderr and result.stdout == ""
    (out / "one-1.done").rename(out / "one-1.started")
    result = submit(*command, **here | {"BUILD": "2"})
    assert (
        result.returncode == 1
        and change.replace("complete", "interrupted") in result.stderr
        and result.stdout == ""
    )
    (out / "one-1.started").rename(out / "one-1.done")
    result = submit(*command[:-1], "3", **here)
    assert result.returncode == 1 and "changes arguments from" in result.stderr


def test_missing_account_is_an_error_if_the_site_requires_one(table):
    without_account = submit("--site", "torch", table)
    assert without_account.returncode != 0 and "--account" in without_account.stderr
    accepted = submit("--site", "torch", "--account", "a_b_1", table)
    assert options(accepted.stdout.splitlines()[0])["--account"] == "a_b_1"
    assert "--partition" not in accepted.stdout


def test_lockstep_checks_the_further_options(table, tmp_path, program):
    result = submit(
        "--dir", tmp_path / "out", table, "--", "--epochs", "2", **program(0), TMPDIR="/nowhere"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "--epochs 2" in result.stdout
    words = (tmp_path / "lockstep.calls").read_text().split()
    assert (
        words[0] == "train"
        and words[-1] == "--dry-run"
        and dict(zip(words, words[1:]))["--epochs"] == "2"
    )
    assert dict(zip(words, words[1:]))["--global-batch"] == "64"  # the point with one rank


@pytest.mark.parametrize(
    "limit, is_warned",
    [
        ("2:30", True),
        ("0:2:30", True),
        ("0-0:2", True),
        ("0-1", False),
        ("3", False),
        ("UNLIMITED", False),
        ("0", False),
    ],
)
def test_durations_are_compared_with_the_time_limit(table, tmp_path, limit, is_warned):
    """The stub trains 200 images per second, which is 150 s for the point with one rank, and less
    for two ranks."""
    stub = tmp_path / "lockstep"
    stub.write_text(
        """#!/bin/bash
case "$1 $2" in
  "help options") echo '| `--batch-per-rank B` | | `train` | time | |'; echo '| `-b`, `--min-bytes B` | | `allreduce` | | |' ;;
  "help experiment") printf '%s\\n' batch-per-rank=8 global-batch=8 epochs=1 steps=0 evaluate-every=never ;;
  *) printf '"train-samples": "30000",\\n"images_per_second": 199.0,\\n' ;;
esac
""",
        encoding="utf-8",
    )
    stub.chmod(0o755)
    result = submit(
        "--repeats",
        2,
        "--time",
        limit,
        "--grace",
        60,
        "--dir",
        tmp_path / "out",
        table,
        LOCKSTEP_BIN=str(stub),
    )
    assert result.returncode == 0, result.stderr
    one, two, _, total = result.stdout.splitlines()
    assert (
        one.endswith(" # per task: about 3 min")
        and two.endswith(" # per task: about 76 s")
        and total == "# all tasks: about 10 min"
    )
    warning = (
        f"submit: warning: on this machine, these points take longer than --time {limit}: one"
        " (about 3 min); their tasks resume after the limit"
    )
    assert result.stderr == (f"{warning}\n" if is_warned else "")


@pytest.mark.parametrize("status", [2, 3])
def test_options_that_lockstep_rejects_are_not_submitted(table, program, status):
    result = submit(
        table, "--", "--epocs", "2", **program(status, "lockstep: unknown option --epocs")
    )
    assert result.returncode != 0 and result.stdout == ""
    assert (
        result.stderr == "submit: lockstep rejects the options: lockstep: unknown option --epocs\n"
    )


@pytest.mark.parametrize(
    "further, status", [(["--device", "cuda"], 2), (["--device=cuda"], 2), (["--epochs", "2"], 4)]
)
def test_options_that_cannot_be_checked_are_submitted_with_a_note(
    table, tmp_path, program, further, status
):
    result = submit("--dir", tmp_path / "out", table, "--", *further, **program(status))
    assert result.returncode == 0 and "sbatch" in result.stdout
    assert "were not checked" in result.stderr


@pytest.mark.parametrize("further", [["--epocs", "2"], ["--seed", "7"], ["--epochs", "two"]])
def test_installed_program_rejects_invalid_further_options(table, further):
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    result = submit(table, "--", *further, LOCKSTEP_BIN=os.environ["LOCKSTEP_BIN"])
    assert result.returncode != 0 and further[0] in result.stderr, result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--site", "unknown"],
        ["--site", "../sites/generic"],
        ["--repeats", "0"],
        ["--unknown"],
        ["second.tsv"],
        ["--sbatch", "exclusive"],
        ["--sbatch", "--qos a"],
        *(
            ["--sbatch", option]
            for option in (
                "--array=1-3",
                "-a1-3",
                "--export=NONE",
                "--wait",
                "--time=5",
                "--signal=USR1@9",
            )
        ),
        ["--time", "00:02:00"],
        ["--time", "2"],
        ["--time", "0:30", "--grace", "30"],
    ],
)
def test_invalid_options_are_errors(table, arguments):
    result = submit(table, *arguments)
    assert result.returncode != 0 and result.stderr.startswith("submit: ")


@pytest.mark.parametrize(
    "site, gpu, per_node, wanted",
    [
        ("generic", "a40", 4, {"--gres": "gpu:a40:%d"}),
        ("greene", "rtx8000", 4, {"--gres": "gpu:rtx8000:%d"}),
        ("greene", "a100", 4, {"--gres": "gpu:a100:%d"}),
        ("torch", "h200", 8, {"--gres": "gpu:%d", "--constraint": "h200"}),
        ("torch", "l40s", 4, {"--gres": "gpu:%d", "--constraint": "l40s"}),
    ],
)
def test_gpus_are_requested_per_node(table, tmp_path, site, gpu, per_node, wanted):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\nlast\t8\ttrain --batch-per-rank 8\n", encoding="utf-8"
    )
    result = submit(
        "--site",
        site,
        "--gpu",
        gpu,
        "--account",
        "a",
        "--repeats",
        1,
        "--dir",
        tmp_path / "out",
        table,
        LOCKSTEP_IMAGE=str(table),
    )
    assert result.returncode == 0, result.stderr
    assert "were not checked" in result.stderr and len(result.stderr.splitlines()) == 1
    lines = result.stdout.splitlines()
    for line, ranks in zip(lines, (1, 8)):
        array, tasks = options(line), min(ranks, per_node)
        assert {name: array[name] for name in wanted} == {
            name: text.replace("%d", str(tasks)) for name, text in wanted.items()
        }
        assert (array["--nodes"], array["--ntasks-per-node"]) == (str(ranks // tasks), str(tasks))
        assert "--gpus-per-task" not in array and "--partition" not in array
        assert " --device cuda # per task: duration unknown" in line and f" {site} {gpu} " in line
    assert not {"--gres", "--constraint"} & set(options(lines[-1]))  # the report


@pytest.mark.parametrize(
    "answer, status, message",
    [
        (
            "  cuda  this build of Lockstep has no CUDA backend",
            0,
            "lockstep was built without CUDA; set LOCKSTEP_IMAGE to",
        ),
        (
            "lockstep: libcudnn.so.9: cannot open shared object file",
            127,
            "runs here (lockstep: libcudnn.so.9: cannot open shared object file); set",
        ),
        ("  cuda  NVIDIA", 0, None),
    ],
)
def test_gpus_need_a_program_with_cuda(table, tmp_path, program, answer, status, message):
    result = submit("--gpu", "a100", "--dir", tmp_path / "out", table, **program(status, answer))
    assert (result.returncode == 0) == (message is None), result.stderr
    if message:
        assert (
            message in result.stderr
            and result.stdout == ""
            and len(result.stderr.splitlines()) == 1
        )


@pytest.mark.parametrize(
    "variables, message",
    [
        ({}, "(/nowhere: No such file or directory)"),
        ({"LOCKSTEP_IMAGE": "/no.sif"}, "LOCKSTEP_IMAGE: cannot read /no.sif"),
    ],
)
def test_gpus_without_a_program_are_one_error(table, variables, message):
    result = submit("--gpu", "a100", table, **variables)
    assert (
        result.returncode == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1
    )


@pytest.mark.parametrize("site", ["greene", "torch", "generic"])
def test_ranks_on_cpus_request_no_gpus(table, tmp_path, site):
    for line in submit(
        "--site", site, "--account", "a", "--dir", tmp_path / "out", table
    ).stdout.splitlines():
        assert (
            not {"--gres", "--constraint", "--gpus"} & set(options(line)) and "--device" not in line
        )


@pytest.mark.parametrize(
    "site, gpu", [("greene", "h200"), ("torch", "rtx8000"), ("generic", "a100:2;x")]
)
def test_unknown_gpu_is_one_error(table, site, gpu):
    result = submit("--site", site, "--gpu", gpu, "--account", "a", table)
    assert result.returncode != 0 and result.stdout == "" and gpu in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("site", ["greene", "generic"])
@pytest.mark.parametrize(
    "gpu",
    [
        "v100",
        "V100-32GB",
        "tesla_v100s",
        "p100",
        "P4",
        "k80",
        "quadro_p6000",
        "gtx1080ti",
        "gtx_980",
        "1080ti",
        "titan_x",
        "titanv",
        "gp100",
    ],
)
def test_gpu_that_the_program_refuses_is_one_error(table, site, gpu):
    result = submit("--site", site, "--gpu", gpu, table)
    assert result.returncode != 0 and result.stdout == ""
    assert (
        f"--gpu {gpu}: " in result.stderr
        and "compute capability 7.5" in result.stderr
        and len(result.stderr.splitlines()) == 1
    )


@pytest.mark.parametrize(
    "gpu",
    [
        "t4",
        "rtx8000",
        "2080ti",
        "gtx1660",
        "titan_rtx",
        "a100-pcie",
        "a100_3g",
        "l40s",
        "gh200",
        "mi250",
    ],
)
def test_newer_gpus_are_not_refused(table, tmp_path, gpu):
    assert (
        submit("--gpu", gpu, "--dir", tmp_path / "out", table, LOCKSTEP_IMAGE=str(table)).returncode
        == 0
    )


def test_sites_have_gpus_that_the_program_supports():
    header = (ROOT / "src/backend/cuda/device/device.hpp").read_text(encoding="utf-8")
    oldest = int(re.search(r"oldest_compute_capability = (\d+);", header)[1])
    assert f"compute capability {oldest / 10}" in (ROOT / "jobs/slurm/site.sh").read_text(
        encoding="utf-8"
    )
    capability = {"rtx8000": 75, "a100": 80, "l40s": 89, "h100": 90, "h200": 90}
    help_text = re.sub(r"\s+", " ", submit("--help").stdout)
    for site in ("greene", "torch"):
        text = (ROOT / f"jobs/slurm/sites/{site}.sh").read_text(encoding="utf-8")
        words = (
            " ".join(re.findall(r"^  ([\w'| ]+)\) ", text, re.MULTILINE)).replace("|", " ").split()
        )
        types = {word for word in words if word != "''"}
        assert types and [gpu for gpu in types if capability[gpu] < oldest] == []
        refusal = re.search(r"; use ([\w, ]+)\"", text)[1]
        offered = re.search(rf"\b{site}: ([\w, ]+);", help_text)[1]
        for listed in (refusal, offered):
            assert set(re.findall(r"\w+", listed.replace(" or ", " "))) == types


@pytest.fixture
def copy(tmp_path):
    """A copy of the scripts, in a folder with special characters in its name, whose sites a test
    may change."""
    root = tmp_path / "a copy, 100%j $(touch x) `touch x` 'of' \"it\" [1]; & é"
    shutil.copytree(ROOT / "jobs", root / "jobs")
    return root


@pytest.mark.parametrize(
    "text, message",
    [
        ("needs_account=no\nranks_per_node=(\n", "the file of the site is invalid: "),
        ("ranks_per_node=four\n", "ranks_per_node is 'four', but must be a positive integer"),
        ("ranks_per_node=0\n", "ranks_per_node is '0', but must be"),
        ("cores_per_rank=\n", "cores_per_rank is '', but must be"),
        (
            "memory_per_core='4G; x'\n",
            "memory_per_core is '4G; x', but must be an amount such as 4G",
        ),
        ("needs_account=perhaps\n", "needs_account is 'perhaps', but must be yes or no"),
        ("unset -f site_environment\n", "site_environment is '', but must be a function"),
    ],
)
def test_invalid_site_file_is_one_error(copy, table, text, message):
    sites = copy / "jobs" / "slurm" / "sites"
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8") + text, encoding="utf-8"
    )
    result = subprocess.run(
        [copy / "jobs" / "slurm" / "submit", "--dry-run", "--site", "own", table],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0 and result.stdout == "" and message in result.stderr
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("submit: "), (
        result.stderr
    )


def test_options_are_attributed_with_the_environment_of_the_site(copy, table, tmp_path):
    """The program needs modules, and rejects options of the other command."""
    sites, stub = copy / "jobs" / "slurm" / "sites", tmp_path / "lockstep"
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8")
        + "site_environment() { export LOADED=1; }\n",
        encoding="utf-8",
    )
    stub.write_text(
        """#!/bin/bash
[ -n "${LOADED:-}" ] || exit 127
case "$1 $2 $*" in
  "help options"*) echo '| `--epochs E` | | `train` | | |'; echo '| `-b`, `--min-bytes B` | | `allreduce` | | |' ;;
  train*--min-bytes* | allreduce*--epochs*) exit 2 ;;
esac
""",
        encoding="utf-8",
    )
    stub.chmod(0o755)
    table.write_text("one\t1\ttrain\ntwo\t1\tallreduce\n", encoding="utf-8")
    result = subprocess.run(
        [
            copy / "jobs" / "slurm" / "submit",
            "--dry-run",
            "--site",
            "own",
            "--dir",
            tmp_path / "out",
            table,
            "--",
            "-b",
            "4K",
            "--epochs",
            "3",
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"LOCKSTEP_BIN": str(stub)},
    )
    assert (result.returncode, result.stderr) == (0, "") and "-b 4K --epochs 3" in result.stdout


def test_odd_characters_in_paths_stay_words(copy, table):
    odd = copy / "points $HOME;x.tsv"
    table.rename(odd)
    result = subprocess.run(
        [copy / "jobs" / "slurm" / "submit", "--dry-run", "--dir", copy / "results", odd],
        capture_output=True,
        text=True,
        cwd=copy,
        env=os.environ | {"LOCKSTEP_BIN": "/nowhere"},
    )
    assert result.returncode == 0, result.stderr
    for line in result.stdout.splitlines():
        words = shlex.split(line)
        assert (
            str(copy) in words
            and str(copy / "results") in words
            and str(copy / "results" / "table.tsv") in words
        )
        assert options(line)["--output"].startswith(str(copy / "results").replace("%", "%%"))
        assert options(line)["--job-name"].startswith("lockstep-points__HOME_x-")
    assert not list(copy.rglob("x")) and not list(copy.rglob("results"))


@pytest.mark.parametrize("name", ["a\nb", "a\\b"])
def test_paths_that_sbatch_cannot_write_are_one_error(table, tmp_path, name):
    result = submit("--dir", tmp_path / name, table)
    assert result.returncode != 0 and "contains a backslash or a control character" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def slurm_stubs(tmp_path):
    """A function that writes stubs of the programs of Slurm and returns the environment variables
    that select them. `jobs`: output of squeue; `failing`: number of the call of sbatch that fails;
    `answer`: what sbatch prints."""

    def make(jobs="", failing=0, size="1001", answer="$id"):
        folder = tmp_path / "slurm"
        folder.mkdir(exist_ok=True)
        for name, code in {
            "squeue": f"[[ $* == *--user* ]] || printf '{jobs}'",
            "srun": "echo pmix",
            "scontrol": f"echo 'MaxArraySize            = {size}'",
            "sbatch": (
                f'echo "$LOCKSTEP_GRACE" >>"{tmp_path}/sbatch.calls"; count=$(wc -l'
                f' <"{tmp_path}/sbatch.calls")\n[ $count -ne {failing} ] || {{ echo "sbatch: error:'
                f' no" >&2; exit 1; }}\nid=$((70 + count))\necho -e "{answer}"'
            ),
        }.items():
            (folder / name).write_text(f"#!/bin/bash\n{code}\n", encoding="utf-8")
            (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}", "LOCKSTEP_BIN": "/nowhere"}

    return make


def really_submit(table, tmp_path, variables, *arguments):
    return subprocess.run(
        [SUBMIT, "--repeats", "2", "--dir", tmp_path / "out", *arguments, table],
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )


def test_grace_reaches_the_tasks(table, tmp_path, slurm_stubs):
    assert really_submit(table, tmp_path, slurm_stubs(), "--grace", "30").returncode == 0
    assert set((tmp_path / "sbatch.calls").read_text(encoding="utf-8").split()) == {"30"}


def test_second_submission_of_a_study_is_refused(table, tmp_path, slurm_stubs):
    prefix = options(submit("--dir", tmp_path / "out", table).stdout.splitlines()[0])[
        "--job-name"
    ].removesuffix("-n1")
    waiting = f"71 {prefix}-n2\\n71 {prefix}-n2\\n9 {prefix}-report\\n5 other\\n6 {prefix}1-n2\\n"
    result = really_submit(table, tmp_path, slurm_stubs(waiting))
    assert result.returncode != 0 and result.stdout == ""
    assert (
        result.stderr.splitlines()[-1]
        == "submit: a study of this folder is pending or running (jobs 9 71); wait for its report,"
        " or cancel it with: scancel 9 71"
    )
    assert not (tmp_path / "sbatch.calls").exists() and not (tmp_path / "out").exists()


def test_another_table_with_the_folder_of_pending_jobs_is_refused(table, tmp_path, slurm_stubs):
    other = table.with_name("other.tsv")
    other.write_text(TABLE, encoding="utf-8")
    pending = options(submit("--dir", tmp_path / "out", table).stdout.splitlines()[0])["--job-name"]
    result = really_submit(other, tmp_path, slurm_stubs(f"71 {pending}\\n"))
    assert (
        result.returncode != 0
        and "a study of this folder is pending or running (jobs 71)" in result.stderr
    )


def test_jobs_do_not_inherit_the_job_in_which_they_are_submitted(table, tmp_path, slurm_stubs):
    stubs = slurm_stubs()
    (tmp_path / "slurm" / "sbatch").write_text(
        f"#!/bin/bash\nenv >'{tmp_path}/environment'\necho 70\n", encoding="utf-8"
    )
    outer = [
        "SLURM_MEM_PER_NODE",
        "SLURM_CPU_BIND_TYPE",
        "SLURM_EXPORT_ENV",
        "SLURM_STEP_ID",
        "SBATCH_CPU_BIND",
        "PMIX_RANK",
        "SBATCH_EXPORT",
        "SBATCH_ARRAY_INX",
        "SBATCH_WAIT",
        "SBATCH_SIGNAL",
        "SBATCH_GPUS",
        "SBATCH_MEM_PER_NODE",
    ]
    kept = [
        "SLURM_CONF",
        "PMIX_MCA_gds",
        "SBATCH_ACCOUNT",
        "SBATCH_PARTITION",
        "SBATCH_RESERVATION",
    ]
    assert really_submit(table, tmp_path, stubs | dict.fromkeys(outer + kept, "1")).returncode == 0
    names = {
        line.split("=")[0]
        for line in (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    }
    assert not names.intersection(outer) and names.issuperset(kept)


@pytest.mark.parametrize(
    "answer",
    [
        "$id",
        "$id;cluster2",
        "Welcome to Stampede3\\n--> host (login4)...OK\\n$id",
        "$id\\nquota: 7 of 10 GB",
        "Submitted batch job $id",
        "Submitted batch job $id on cluster slaking",
    ],
)
def test_id_is_found_in_the_answer_of_sbatch(table, tmp_path, slurm_stubs, answer):
    result = really_submit(table, tmp_path, slurm_stubs(answer=answer))
    assert (
        result.returncode == 0 and "submitted the arrays 71 72; job 73 writes" in result.stdout
    ), result.stderr
    assert "--dependency=afterany:71:72 " in result.stdout


def test_answer_without_an_id_is_one_error(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(answer="queued"))
    assert result.returncode == 1 and result.stderr.endswith(
        "printed no id of a job, but: queued; see squeue --me; submit again\n"
    )


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_jobs_get_the_environment(table, tmp_path, slurm_stubs, launcher):
    """Sites set SBATCH_EXPORT=NONE; LOCKSTEP_BIN and others would then not reach the tasks."""
    result = really_submit(
        table, tmp_path, slurm_stubs() | {"SBATCH_EXPORT": "NONE"}, "--launcher", launcher
    )
    assert [options(line)["--export"] for line in result.stdout.splitlines()[:-1]] == ["ALL"] * 3


def test_other_studies_are_submitted_at_the_same_time(table, tmp_path, slurm_stubs):
    other = options(submit("--dir", tmp_path / "other", table).stdout.splitlines()[0])["--job-name"]
    result = really_submit(table, tmp_path, slurm_stubs(f"71 {other}\\n72 bash\\n"))
    assert result.returncode == 0 and "submitted the arrays 71 72; job 73 writes" in result.stdout


def test_jobs_use_a_copy_of_the_table(table, tmp_path, slurm_stubs):
    assert really_submit(table, tmp_path, slurm_stubs()).returncode == 0
    assert (tmp_path / "out" / "table.tsv").read_text(encoding="utf-8") == TABLE
    again = really_submit(tmp_path / "out" / "table.tsv", tmp_path, slurm_stubs())
    assert again.returncode == 0, again.stderr


def test_error_of_sbatch_lists_the_submitted_arrays(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(failing=2))
    assert result.returncode != 0
    assert result.stderr.splitlines()[-2:] == [
        "sbatch: error: no",
        (
            "submit: sbatch failed, see above; the arrays 71 were submitted: wait until they have"
            " ended, or cancel them with scancel 71; then the same command submits the rest (if the"
            " number of jobs is limited: reduce --repeats)"
        ),
    ]


def test_array_that_is_too_large_is_one_error(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(size="6"))
    assert result.returncode != 0 and not (tmp_path / "sbatch.calls").exists()
    assert (
        result.stderr
        == "submit: the study has 6 runs, but the largest array of this cluster has 5 tasks; split"
        " the table or reduce --repeats\n"
    )
    assert really_submit(table, tmp_path, slurm_stubs(size="7")).returncode == 0


def test_points_with_other_threads_are_an_array_of_their_own(table, tmp_path):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --threads 1\ntwo\t1\ttrain --batch-per-rank 8"
        " --threads 2\n",
        encoding="utf-8",
    )
    arrays = [
        options(line)
        for line in submit("--repeats", 1, "--dir", tmp_path / "out", table).stdout.splitlines()[
            :-1
        ]
    ]
    assert [(a["--cpus-per-task"], a["--array"]) for a in arrays] == [("1", "1%4"), ("2", "2%4")]


def test_threads_that_lockstep_selects_are_those_of_the_site(table, tmp_path):
    lines = [
        submit("--dir", tmp_path / "out", table, "--", *further).stdout.splitlines()[0]
        for further in ([], ["--threads", "0"])
    ]
    assert len({options(line)["--cpus-per-task"] for line in lines}) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--time"], ["--time", ""], ["--time", "abc"], ["--grace"], ["--dir"], ["--account"]],
)
def test_options_without_a_valid_value_are_errors(table, arguments):
    result = submit(table, *arguments)
    assert result.returncode != 0 and result.stdout == ""
    assert result.stderr.startswith("submit: --") and len(result.stderr.splitlines()) == 1


def run_task(
    tmp_path,
    table,
    task,
    status,
    restart=0,
    state="RUNNING",
    directory=None,
    root=ROOT,
    site="generic",
    **variables,
):
    """Runs one array task with stubs of srun and scontrol, which record their last arguments. srun
    creates the run file and exits with `status`; scontrol prints that the job is in the state
    `state`. `variables` are added to the environment.
    """
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, code in (("srun", status), ("scontrol", 0)):
        (programs / name).write_text(
            f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/{name}.calls"\n'
            f'[ "$1" != --oneliner ] || echo "JobId=77 JobState={state} Reason=None"\n'
            f'[ {name} = scontrol ] || touch -- "${{@: -1}}"\nexit {code}\n',
            encoding="utf-8",
        )
        (programs / name).chmod(0o755)
    environment = (
        os.environ
        | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LOCKSTEP_BIN": "/opt/lockstep",
            "SLURM_CPUS_PER_TASK": "4",
            "SLURM_ARRAY_JOB_ID": "77",
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_RESTART_COUNT": str(restart),
        }
        | variables
    )
    return subprocess.run(
        ["bash", TASK, root, site, "", "srun", table, "3", directory or tmp_path, "--epochs", "2"],
        capture_output=True,
        text=True,
        env=environment,
    )


def test_task_trains_the_point_of_its_index(tmp_path, table):
    assert run_task(tmp_path, table, 8, 0).returncode == 0  # line 3, repeat 2
    words = (tmp_path / "srun.calls").read_text().split()
    assert {
        "--mpi=pmix",
        "--export=ALL",
        "--kill-on-bad-exit=1",
        "--ntasks=2",
        "--cpus-per-task=4",
        "/opt/lockstep",
    } <= set(words)
    pairs = dict(zip(words, words[1:]))
    assert (pairs["--batch-per-rank"], pairs["--seed"], pairs["--epochs"], pairs["--threads"]) == (
        "128",
        "2",
        "2",
        "4",
    )
    assert pairs["--output"] == f"{tmp_path}/two-big-2.77_8.0.h5"
    assert (tmp_path / "two-big-2.done").read_text() == "two-big-2.77_8.0.h5\n"
    assert not (tmp_path / "scontrol.calls").exists()


def test_ranks_start_in_containers(tmp_path, table, monkeypatch):
    image = tmp_path / "an image.sif"
    image.touch()
    engine = tmp_path / "bin" / "apptainer"
    engine.parent.mkdir()
    engine.write_text("#!/bin/bash\n", encoding="utf-8")
    engine.chmod(0o755)
    monkeypatch.setenv("LOCKSTEP_IMAGE", str(image))
    for gpus, flags in (("", []), ("0,1", ["--nv"])):
        monkeypatch.setenv("SLURM_JOB_GPUS", gpus)
        assert run_task(tmp_path, table, 1, 0).returncode == 0
        words = (tmp_path / "srun.calls").read_text().splitlines()
        start = words.index(str(engine))
        assert words[start : start + 4 + len(flags)] == [
            str(engine),
            "exec",
            *flags,
            str(image),
            "/opt/lockstep",
        ]
        (tmp_path / "one-1.done").unlink()
    image.unlink()
    result = run_task(tmp_path, table, 1, 0)
    assert result.returncode != 0 and result.stderr.endswith(
        f"LOCKSTEP_IMAGE: cannot read {image}\n"
    )


@pytest.mark.parametrize(
    "complete, message",
    [
        (
            [],
            (
                "the report failed; runs that are not complete: one-1 two-1 two-big-1; submit the"
                " same study again"
            ),
        ),
        (["one", "two", "two-big"], "the report failed, see above"),
        (["one", "two"], "the report failed; runs that are not complete: two-big-1;"),
    ],
)
def test_report_that_fails_hides_no_incomplete_runs(tmp_path, table, complete, message):
    (tmp_path / "one-1.0.h5").write_text("no run file", encoding="utf-8")
    for name, ending in zip(complete, ("done", "memory", "done")):
        (tmp_path / f"{name}-1.{ending}").touch()
    result = subprocess.run(
        ["bash", TASK.with_name("report.sbatch"), ROOT, "generic", table, "1", tmp_path],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0 and message in result.stderr.splitlines()[-1], result.stderr
    assert "not an HDF5 file" in result.stderr


def test_task_of_a_complete_point_does_not_train(tmp_path, table):
    complete(tmp_path, "one-1")
    result = run_task(tmp_path, table, 1, 0)
    assert result.returncode == 0 and "complete: one-1.70_1.0.h5" in result.stdout
    assert not (tmp_path / "srun.calls").exists()


def test_interrupted_task_is_requeued(tmp_path, table):
    assert run_task(tmp_path, table, 1, 75).returncode == 0
    assert (tmp_path / "scontrol.calls").read_text().split() == ["requeue", "77_1"]
    assert not (tmp_path / "one-1.done").exists()


@pytest.mark.parametrize("broken", ["requeue", "*"], ids=["requeue refused", "no controller"])
def test_task_that_cannot_be_requeued_says_what_to_do(tmp_path, table, broken):
    scontrol = tmp_path / "own" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(
        f"#!/bin/bash\ncase $1 in {broken}) echo disabled >&2; exit 1 ;; esac\necho JobId=77"
        " JobState=RUNNING Reason=None\n",
        encoding="utf-8",
    )
    scontrol.chmod(0o755)
    (tmp_path / "bin").mkdir()
    result = run_task(
        tmp_path, table, 1, 75, PATH=f"{scontrol.parent}:{tmp_path}/bin:{os.environ['PATH']}"
    )
    assert result.returncode != 0
    [line] = [
        line
        for line in (result.stdout + result.stderr).splitlines()
        if "one-1 was interrupted" in line
    ]
    assert line.endswith("submit the same study again to resume it")


def test_scripts_of_a_site_may_read_unset_variables(copy, tmp_path, table):
    """Scripts of modules and conda do."""
    sites = copy / "jobs" / "slurm" / "sites"
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8")
        + "site_environment() { export MINE=$NOT_SET; }\n",
        encoding="utf-8",
    )
    shutil.copytree(
        ROOT / "analysis", copy / "analysis", ignore=shutil.ignore_patterns("tests", "lockstep_*")
    )
    result = run_task(tmp_path, table, 1, 0, root=copy, site="own")
    assert result.returncode == 0, result.stderr


def test_interrupted_task_that_is_cancelled_is_not_requeued(tmp_path, table):
    result = run_task(tmp_path, table, 1, 75, state="COMPLETING")
    assert result.returncode == 75 and "is not requeued here" in result.stdout
    assert "requeue" not in (tmp_path / "scontrol.calls").read_text().split()


@pytest.mark.parametrize(
    "types, name, option",
    [
        ("none pmix pmix_v4", "srun", "--signal=TERM@120"),
        ("none pmi2", "mpirun", "--signal=B:TERM@120"),
    ],
)
def test_launcher_is_mpirun_if_srun_has_no_pmix(table, tmp_path, types, name, option):
    (tmp_path / "srun").write_text(
        f"#!/bin/bash\necho MPI plugin types are... {types}\n", encoding="utf-8"
    )
    (tmp_path / "srun").chmod(0o755)
    line = submit(
        "--dir", tmp_path / "out", table, PATH=f"{tmp_path}:{os.environ['PATH']}"
    ).stdout.splitlines()[0]
    assert option in line and f" generic '' {name} " in line


def test_task_is_not_requeued_after_ten_restarts(tmp_path, table):
    result = run_task(tmp_path, table, 1, 75, restart=10)
    assert result.returncode != 0 and "it is not requeued again" in result.stderr
    assert "requeue" not in (tmp_path / "scontrol.calls").read_text().split()


def test_task_that_does_not_fit_in_memory_is_noted(tmp_path, table):
    result = run_task(tmp_path, table, 1, 4)
    assert result.returncode == 0 and "one-1 does not fit in memory" in result.stdout
    assert (tmp_path / "one-1.memory").exists() and not (tmp_path / "one-1.done").exists()


def test_task_returns_the_exit_status_of_the_training(tmp_path, table):
    assert run_task(tmp_path, table, 1, 5).returncode == 5
    assert not (tmp_path / "scontrol.calls").exists()
    assert not (tmp_path / "one-1.done").exists()
