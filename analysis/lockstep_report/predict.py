# SPDX-License-Identifier: BSD-3-Clause
"""The command `predict`."""

from dataclasses import replace

from lockstep_report.arguments import finish, positive_integer, positive_number, rank_list, share
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.figures.canvas import figure_module
from lockstep_report.measure.choices import library_of
from lockstep_report.measure.points import point_of
from lockstep_report.models.prediction.basis import best_bases
from lockstep_report.models.prediction.network import network_of_sweeps, read_network
from lockstep_report.models.prediction.predict import SEED
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
from lockstep_report.tables.prediction import prediction_rows, prediction_table, prediction_values
from lockstep_report.tables.table import json_text, markdown


def add(commands):
    command = commands.add_parser(
        "predict",
        help="predict the step time on other numbers of ranks",
        description=(
            "Predicts the step time from the measured steps of training runs and from a "
            "network. Nothing of it is measured."
        ),
    )
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help="run files of training on several ranks, or directories",
    )
    command.add_argument(
        "--ranks",
        type=rank_list,
        required=True,
        metavar="LIST",
        help="numbers of ranks, for example 8,64,512",
    )
    command.add_argument(
        "--network",
        nargs="+",
        required=True,
        metavar="FILE",
        help=(
            "network description (JSON); or run files of `lockstep allreduce`, or outputs of "
            "all_reduce_perf of nccl-tests (text or JSON), to which it is fitted"
        ),
    )
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
    command.add_argument("--seed", type=int, default=SEED, help="seed of the random draws [1]")
    command.add_argument("--out", metavar="DIR", help="write the table and the figure there")
    finish(command, print_prediction)


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
    network = network_of(options, bases)
    if options.overlap is not None:
        network = replace(network, overlap=options.overlap)
    size = options.bucket_mib and options.bucket_mib * 2**20
    return prediction_rows(
        trained, bases, network, options.ranks, options.seed, size, options.global_batch
    )


def network_of(options, bases):
    """Returns the network of --network: one JSON file, or sweeps, of which those of the algorithm
    of the bases are used."""
    kind = kind_of_file(options.network[0])
    if kind == JSON or (
        options.network[0].endswith(".json") and kind not in (HDF5, NCCL_TESTS, OSU, IMB)
    ):
        if len(options.network) > 1:
            raise ReportError(USAGE, "--network takes one description, or several sweeps (*.h5)")
        if options.algorithm:
            raise ReportError(
                USAGE, "--algorithm is only for sweeps; a network description names its algorithm"
            )
        return read_network(options.network[0])
    for name in options.network:
        kind = kind_of_file(name)
        if kind and kind not in (HDF5, NCCL_TESTS, OSU, IMB, OTHER):
            raise other_kind(
                name,
                "a sweep or a network description",
                kind,
                "give run files of `lockstep allreduce`, outputs of "
                "nccl-tests, osu_allreduce or IMB, or a network description (*.json)",
            )
    sweeps = read_files(options, options.network).runs
    lacking = [run for run in sweeps if not run.allreduce]
    if lacking:
        raise ReportError(
            INPUT,
            f"{lacking[0].path}: not a sweep of `lockstep allreduce`; give "
            "one, or a network description (*.json)",
        )
    if library_of(sweeps[0]) == "NCCL":
        return network_of_sweeps(sweeps, options.algorithm or "ring")
    algorithms = {basis.algorithm.partition(" ")[0] for basis in bases} - {"none"}  # of one rank
    if not options.algorithm and len(algorithms) != 1:
        used = (
            f"the algorithms {', '.join(sorted(algorithms))}"
            if algorithms
            else "no all-reduce algorithm"
        )
        raise ReportError(USAGE, f"the runs use {used}; select one with --algorithm")
    return network_of_sweeps(sweeps, options.algorithm or algorithms.pop())
