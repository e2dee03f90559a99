# SPDX-License-Identifier: BSD-3-Clause
"""Command-line interface: lockstep-weights COMMAND FILE -o FILE"""

from lockstep_report.arguments import commands_of, positive_integer, run
from lockstep_report.errors import USAGE, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.output import require_new
from lockstep_report.runfile.settings import some_of

from lockstep_weights import files, states
from lockstep_weights.matching import match, require_finite, require_fit, require_statistics
from lockstep_weights.networks import KUANGLIU, NETWORKS, TORCHVISION, renamed


def main(arguments=None):
    """Runs one command and returns the exit status."""
    return run(parser(), arguments)


def parser():
    top, commands = commands_of(
        "lockstep-weights",
        "Converts weights between PyTorch and Lockstep.",
        "Networks and classes: docs/pytorch.md. Exit status: 0 done, 2 bad option or missing"
        " library, 3 bad or missing input, 6 output cannot be written.",
    )
    add_from_pytorch(commands)
    add_to_pytorch(commands)
    return top


def add_from_pytorch(commands):
    command = commands.add_parser(
        "from-pytorch",
        help="write a file for lockstep --init-from",
        description=(
            "Writes the weights in a file of PyTorch (.pth: a state_dict, or a checkpoint that"
            " contains one), safetensors or NumPy (.npz) to an HDF5 file for lockstep --init-from."
            " No code from the file is executed."
        ),
    )
    add_files(command, "FILE.pth", "FILE.h5")
    command.add_argument(
        "--partial",
        action="store_true",
        help=(
            "take the tensors that the network has and name the others; a classifier that the file "
            "lacks, or that has another number of classes, is 0"
        ),
    )
    command.add_argument(
        "--classes",
        type=positive_integer,
        metavar="N",
        help="number of classes [that of the file; 10 if it has no classifier of the network]",
    )
    command.add_argument(
        "--state",
        metavar="NAME",
        help=(
            "which of several weights in a checkpoint, for example model_ema [those of the network,"
            " no average]"
        ),
    )
    command.set_defaults(command=from_pytorch)


def add_to_pytorch(commands):
    command = commands.add_parser(
        "to-pytorch",
        help="write a file for load_state_dict",
        description=(
            "Writes the weights in a checkpoint of lockstep to a file that"
            " model.load_state_dict(torch.load(FILE)) takes; to safetensors if its name ends with"
            " .safetensors."
        ),
    )
    add_files(command, "CHECKPOINT.h5", "FILE.pth")
    command.add_argument(
        "--style",
        choices=(KUANGLIU, TORCHVISION),
        help=(
            "names of the tensors: those of kuangliu/pytorch-cifar or of torchvision [those of the"
            " network]"
        ),
    )
    command.set_defaults(command=to_pytorch)


def add_files(command, source, target):
    command.add_argument("file", metavar=source)
    command.add_argument("-o", "--output", required=True, metavar=target, help="new file")
    command.add_argument(
        "--network",
        choices=NETWORKS,
        metavar="NAME",
        help=f"network: {', '.join(NETWORKS)} [recognised from names and shapes]",
    )


def from_pytorch(options):
    require_new(options.output)
    content = files.read_pytorch(options.file)
    place, found, others = states.select(
        options.file,
        content,
        lambda state: match(state, options.network, options.classes, options.partial),
        options.state,
    )
    found = found.converted(lambda name, tensor: files.array_of(options.file, name, tensor))
    require_fit(options.file, found, options.network)
    if not options.network:
        require_statistics(options.file, found)
    require_finite(options.file, found)
    files.write(options.output, files.hdf5_bytes(found.tensors() | found.counters()))
    describe(options, found, f"{options.file}, {place}" if place else options.file)
    for what, names in (
        ("not taken", [*found.surplus, *found.beside, *states.outside(content, place)]),
        ("set to 0", found.initialised()),
        ("other weights, which --state NAME takes", others),
    ):
        if names:
            print(one_line(f"{what}: {some_of(names)}"))


def to_pytorch(options):
    content = files.require_writer(options.output)
    require_new(options.output)
    found = match(states.plain_names(files.read_lockstep(options.file)), options.network)
    require_fit(options.file, found, options.network)
    styles = found.network.styles
    style = options.style or styles[0]
    if style not in styles:
        raise ReportError(
            USAGE,
            f"--style {style}: has no class for the weights of {found.network.name}; use --style"
            f" {styles[0]}",
        )
    state = found.tensors() | found.counters()
    files.write(
        options.output, content({renamed(name, style): array for name, array in state.items()})
    )
    describe(options, found, options.file)


def describe(options, found, source):
    classes = found.shapes[found.classifier()[1]][0]
    print(one_line(f"{options.output}: {found.network.name} with {classes} classes from {source}"))
