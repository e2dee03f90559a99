"""The command `predict`: from its options to predictions."""

from dataclasses import replace

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.measure.points import point_of
from lockstep_report.models.prediction.bases import best_bases
from lockstep_report.models.prediction.collectives import ALGORITHMS, FLAT
from lockstep_report.models.prediction.nccl_tests import network_of_nccl_tests
from lockstep_report.models.prediction.network import read_network
from lockstep_report.models.prediction.sweep_network import network_of_sweeps
from lockstep_report.runfile.file_kind import HDF5, JSON, NCCL_TESTS, kind_of_file
from lockstep_report.runfile.input_files import each, read_files, require
from lockstep_report.tables.prediction import prediction_rows

MIB = 2**20


def predicted_rows(options, runs):
    """Returns the predictions for the options of the command. Raises `ReportError`."""
    trained = each(options.skipped, runs, point_of)
    require(options.skipped, trained)
    bases = best_bases(trained)
    network = network_of(options, bases)
    if options.overlap is not None:
        network = replace(network, overlap=options.overlap)
    size = options.bucket_mib and options.bucket_mib * MIB
    return prediction_rows(trained, bases, network, options.ranks, options.seed, size,
                           options.global_batch)


def network_of(options, bases):
    """Returns the network of --network: one JSON file, or any number of sweeps, of which those of
    the algorithm of the bases are used, or any number of outputs of nccl-tests."""
    kind = kind_of_file(options.network[0])
    if kind == NCCL_TESTS:
        algorithm = options.algorithm or "ring"
        if algorithm not in FLAT or algorithm not in ALGORITHMS["NCCL"]:
            raise ReportError(USAGE, f"--algorithm {algorithm}: outputs of nccl-tests are fitted to the algorithms "
                                     "ring and tree of NCCL")
        return network_of_nccl_tests(options.network, algorithm)
    if kind == JSON or (options.network[0].endswith(".json") and kind != HDF5):
        if len(options.network) > 1:
            raise ReportError(USAGE, "--network takes one description, or several sweeps (*.h5)")
        network = read_network(options.network[0])
        if options.algorithm:
            raise ReportError(USAGE, "--algorithm is only for sweeps; a network description names "
                                     "its algorithm")
        return network
    sweeps = read_files(options, options.network).runs
    lacking = [run for run in sweeps if not run.allreduce]
    if lacking:
        raise ReportError(INPUT, f"{lacking[0].path}: not a sweep of `lockstep allreduce`; give "
                                 "one, or a network description (*.json)")
    algorithms = {basis.algorithm.partition(" ")[0] for basis in bases}
    algorithms.discard("none")  # one rank
    if not options.algorithm and len(algorithms) > 1:
        raise ReportError(USAGE, "the runs use the algorithms " + ", ".join(sorted(algorithms))
                          + "; select one with --algorithm")
    if not options.algorithm and not algorithms:
        raise ReportError(USAGE, "the runs use no all-reduce algorithm; select one of the sweeps with "
                                 "--algorithm")
    return network_of_sweeps(sweeps, options.algorithm or algorithms.pop())


