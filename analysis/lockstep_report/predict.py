# SPDX-License-Identifier: BSD-3-Clause
"""The command `predict`."""

import shlex
from dataclasses import replace

from lockstep_report.arguments import finish, positive_integer, positive_number, rank_list, share
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.figures.canvas import figure_module
from lockstep_report.measure.choices import library_of
from lockstep_report.measure.points import point_of
from lockstep_report.models.prediction.basis import best_bases, require_bases
from lockstep_report.models.prediction.network_file import EXAMPLE, read_network
from lockstep_report.models.prediction.predict import SEED
from lockstep_report.models.prediction.rows import prediction_rows
from lockstep_report.models.prediction.sweep_choice import (
    algorithms_of,
    all_sweeps,
    lacked_processors,
    measured_algorithms,
    modelled_algorithms,
    nearest_algorithm,
    sweeps_like,
)
from lockstep_report.models.prediction.sweep_fit import flat_algorithms, network_of_sweeps
from lockstep_report.output import PREDICTION, Folder
from lockstep_report.runfile.file_kind import (
    HDF5,
    IMB,
    JSON,
    NCCL_TESTS,
    OSU,
    OTHER,
    kind_of_file,
    other_kind,
)
from lockstep_report.runfile.input_files import each, read_files, require
from lockstep_report.runfile.settings import some_of
from lockstep_report.tables.prediction import prediction_table, prediction_values
from lockstep_report.tables.table import json_text, markdown

DESCRIPTION = (
    "Predicts the step time from the measured steps of training runs and from a network. Nothing"
    " of it is measured."
)
NETWORK_HELP = (
    "network description (JSON); or run files of `lockstep allreduce`, or outputs of "
    "all_reduce_perf of nccl-tests (text or JSON), to which it is fitted [the sweeps of `lockstep"
    " allreduce` among the runs, on the same hosts]"
)
SWEEP_OR_DESCRIPTION = (
    "give run files of `lockstep allreduce`, outputs of nccl-tests, osu_allreduce or IMB, or a"
    " network description (*.json)"
)
MOST_RUNS = 4  # in a command of a message
SWEEPS = (HDF5, NCCL_TESTS, OSU, IMB)  # kinds of files that can have sweeps


def add(commands):
    command = commands.add_parser(
        "predict", help="predict the step time on other numbers of ranks", description=DESCRIPTION
    )
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help="run files of training on several ranks, and of sweeps of the network; or directories",
    )
    command.add_argument(
        "--ranks",
        type=rank_list,
        required=True,
        metavar="LIST",
        help="numbers of ranks, for example 8,64,512",
    )
    add_network_options(command)
    add_step_options(command)
    command.add_argument("--seed", type=int, default=SEED, help="seed of the random draws [1]")
    command.add_argument("--out", metavar="DIR", help="write the table and the figure there")
    finish(command, print_prediction)


def add_network_options(command):
    command.add_argument("--network", nargs="+", metavar="FILE", help=NETWORK_HELP)
    command.add_argument(
        "--algorithm",
        metavar="NAME",
        help="algorithm of the sweeps [that of the training run; NCCL: ring]",
    )
    command.add_argument(
        "--overlap",
        type=share,
        metavar="SHARE",
        help=(
            "rate of all-reduces during the backward pass, relative to their "
            "rate after it, 0 to 1 [1, or that of the network]"
        ),
    )


def add_step_options(command):
    command.add_argument(
        "--global-batch",
        type=positive_integer,
        metavar="B",
        help=(
            "strong scaling: images of a step over all ranks; needs runs with "
            "smaller and larger batches per rank [batch per rank of the runs]"
        ),
    )
    command.add_argument(
        "--bucket-mib",
        type=positive_number,
        metavar="MIB",
        help="size of the gradient buckets [as measured]",
    )


def print_prediction(options):
    rows = predicted_rows(options, read_files(options, options.runs).runs)
    table = prediction_table(rows)
    if options.out:
        figure = figure_module("scaling").prediction_figure(rows)
        folder = Folder(options.out, PREDICTION)
        folder.write_tables([table], PREDICTION)
        for suffix, content in figure_module("style").render(figure, ("svg", "png", "pdf")).items():
            folder.write(f"{table.name}.{suffix}", content, PREDICTION)
        folder.finish()
    print(
        json_text(prediction_values(rows, options.seed))
        if options.json
        else markdown(table).rstrip("\n")
    )


def predicted_rows(options, runs):
    trained = each(options.skipped, runs, point_of)
    require(options.skipped, trained)
    bases = best_bases(trained)
    network = network_of(options, trained, bases)
    if options.overlap is not None:
        network = replace(network, overlap=options.overlap)
    size = options.bucket_mib and options.bucket_mib * 2**20
    return prediction_rows(
        trained, bases, network, options.ranks, options.seed, size, options.global_batch
    )


def network_of(options, trained, bases):
    """Returns the network of --network: one JSON file, or sweeps, of which those of the algorithm
    of the bases are used; without --network, that of the sweeps among the runs."""
    if not options.network:
        require_bases(trained, bases)
        sweeps = own_sweeps([run for run, _ in trained], bases)
        return fitted_network(options, sweeps, bases)
    kind = kind_of_file(options.network[0])
    if kind == JSON or (options.network[0].endswith(".json") and kind not in SWEEPS):
        return described_network(options)
    sweeps = given_sweeps(options)
    require_bases(trained, bases)
    return fitted_network(options, sweeps, bases)


def described_network(options):
    if len(options.network) > 1:
        raise ReportError(USAGE, "--network takes one description, or several sweeps (*.h5)")
    if options.algorithm:
        raise ReportError(
            USAGE, "--algorithm is only for sweeps; a network description names its algorithm"
        )
    return read_network(options.network[0])


def given_sweeps(options):
    """Returns the sweeps of --network. Raises `ReportError` (input) if a file is none."""
    for name in options.network:
        kind = kind_of_file(name)
        if kind and kind not in (*SWEEPS, OTHER):
            raise other_kind(name, "a sweep or a network description", kind, SWEEP_OR_DESCRIPTION)
    sweeps = read_files(options, options.network).runs
    lacking = [run for run in sweeps if not run.allreduce]
    if lacking:
        raise ReportError(
            INPUT,
            f"{lacking[0].path}: not a sweep of `lockstep allreduce`; give "
            "one, or a network description (*.json)",
        )
    return sweeps


def own_sweeps(runs, bases):
    """Returns the sweeps among the runs that describe the network of the bases. Raises
    `ReportError` (input) if there is none, or if the ranks of all lacked processors."""
    found = sweeps_like(runs, bases)
    sweeps = [run for run in found if not lacked_processors(run)]
    if sweeps:
        return sweeps
    if found:
        reason = f"the ranks of the sweeps ({some_of(labels(found))}) lacked processors"
    elif all_sweeps(runs):
        others = some_of(labels(all_sweeps(runs)))
        reason = f"the sweeps ({others}) have other hosts or another library than the runs"
    else:
        reason = "the given files have no sweep of `lockstep allreduce`"
    ranks = max(2, max(basis.ranks for basis in bases))
    raise ReportError(
        INPUT,
        f"no network: {reason}; either measure one on the hosts of the runs and add it to them"
        f" (mpirun -n {ranks} lockstep allreduce --output sweep.h5), or describe one with --network"
        f" FILE.json, for example {EXAMPLE}",
    )


def labels(runs):
    return [run.label for run in runs]


def fitted_network(options, sweeps, bases):
    """Returns the network that is fitted to sweeps, for the algorithm of --algorithm or that of the
    bases."""
    if library_of(sweeps[0]) == "NCCL":
        return network_of_sweeps(sweeps, options.algorithm or "ring")
    if options.algorithm:
        return network_of_sweeps(sweeps, options.algorithm)
    algorithms = algorithms_of(bases)
    if len(algorithms) != 1:
        used = (
            f"the algorithms {', '.join(algorithms)}" if algorithms else "no all-reduce algorithm"
        )
        raise ReportError(USAGE, f"the runs use {used}; select one with --algorithm")
    (algorithm,) = algorithms
    if algorithm not in flat_algorithms(library_of(sweeps[0])) and modelled_algorithms(sweeps):
        raise unmodelled(options, sweeps, algorithm)
    return network_of_sweeps(sweeps, algorithm)


def unmodelled(options, sweeps, algorithm):
    """Returns the error of an algorithm without a formula, if the sweeps measured others."""
    nearest = nearest_algorithm(sweeps, algorithm)
    measured, modelled = measured_algorithms(sweeps), modelled_algorithms(sweeps)
    return ReportError(
        INPUT,
        f"{some_of(labels(sweeps))}: no model for {algorithm}, the all-reduce algorithm of the"
        f" runs; the sweep has {', '.join(measured)}, of which there is a model for"
        f" {', '.join(modelled)}; the times of {nearest} are nearest to those of {algorithm}:"
        f" {command_text(options, nearest)}",
    )


def command_text(options, algorithm):
    """Returns what to type for another algorithm: the command if it is short."""
    if len(options.runs) > MOST_RUNS:
        return f"add --algorithm {algorithm}"
    words = ["lockstep-report", "predict", *options.runs]
    words += ["--ranks", ",".join(map(str, options.ranks)), "--algorithm", algorithm]
    if options.network:
        words += ["--network", *options.network]
    return shlex.join(words)
