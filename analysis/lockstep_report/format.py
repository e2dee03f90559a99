"""The datasets and attributes of a run file ("lockstep-run", versions 1 and 2)."""

from dataclasses import dataclass

FORMAT = "lockstep-run"
FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
STATUSES = ("running", "complete", "preempted", "failed")
PHASES = ("data_wait", "upload", "forward", "backward", "exposed_communication", "update")

ROOT_ATTRIBUTES = (
    "format",
    "format_version",
    "software_version",
    "git_commit",
    "git_dirty",
    "date_utc",
    "command_line",
    "run_id",
    "status",
)

# Integer attributes that version 2 added; files of version 1 lack them.
VERSION_2_ATTRIBUTES = ("part", "first_step", "steps_per_epoch", "images_per_epoch")

GROUPS = ("config", "environment", "ranks", "steps", "epochs", "buckets")


@dataclass(frozen=True)
class Dataset:
    """One dataset: its path, the scales of its dimensions, and whether it is required."""

    path: str
    dimensions: tuple
    required: bool = True


TRAINING = (
    Dataset("ranks/rank", ("rank",)),
    Dataset("ranks/local_rank", ("rank",)),
    Dataset("ranks/hostname", ("rank",)),
    Dataset("ranks/host", ("rank",), required=False),
    Dataset("ranks/cpu_list", ("rank",)),
    Dataset("ranks/device_name", ("rank",)),
    Dataset("ranks/device_uuid", ("rank",)),
    Dataset("ranks/pci_bus_id", ("rank",)),
    Dataset("ranks/memory_bytes", ("rank",)),
    Dataset("steps/epoch", ("step",)),
    Dataset("steps/learning_rate", ("step",)),
    Dataset("steps/loss", ("step",)),
    Dataset("steps/images", ("step",)),
    Dataset("steps/phase_seconds", ("step", "rank", "phase")),
    Dataset("epochs/train_loss", ("epoch",)),
    Dataset("epochs/train_accuracy", ("epoch",)),
    Dataset("epochs/test_loss", ("epoch",)),
    Dataset("epochs/test_accuracy", ("epoch",)),
    Dataset("epochs/seconds", ("epoch",)),
    Dataset("epochs/energy_joules", ("epoch", "rank"), required=False),
    Dataset("epochs/utilisation", ("epoch", "rank"), required=False),
    Dataset("epochs/memory_used_bytes", ("epoch", "rank"), required=False),
)

BUCKETS = (
    Dataset("buckets/bytes", ("bucket",)),
    Dataset("buckets/start_seconds", ("step", "rank", "bucket")),
    Dataset("buckets/end_seconds", ("step", "rank", "bucket")),
)

LADDER = (
    Dataset("ladder/batch_per_rank", ("point",)),
    Dataset("ladder/status", ("point",)),
    Dataset("ladder/epoch_seconds", ("point",)),
    Dataset("ladder/images_per_second", ("point",)),
    Dataset("ladder/predicted_bytes", ("point",)),
    Dataset("ladder/peak_bytes", ("point",)),
    Dataset("ladder/training_seconds", ("point",), required=False),
    Dataset("ladder/steps", ("point",), required=False),
    Dataset("ladder/is_extrapolated", ("point",), required=False),
)

ALLREDUCE = (
    Dataset("allreduce/way", ("message",)),
    Dataset("allreduce/bytes", ("message",)),
    Dataset("allreduce/seconds", ("message", "repeat")),
    Dataset("allreduce/wrong", ("message",)),
)
