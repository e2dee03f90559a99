"""Export of scalars to event files of TensorBoard: one folder per run.

An event file is a sequence of records: length (uint64), masked CRC-32C of the length (uint32), data,
masked CRC-32C of the data. The data are a protocol buffer `Event` with the fields wall_time (1),
step (2), file_version (3) and summary (5). This package writes the few fields itself, so that it
needs no further library and the same run gives the same bytes.
"""

import struct
from datetime import datetime, timezone

import numpy as np

from lockstep_report.measure.step_times import step_seconds
from lockstep_report.runfile.stored import by_blocks

POLYNOMIAL = 0x82F63B78  # of CRC-32C (Castagnoli), reversed
EPOCH_TAGS = {"train_loss": "epoch/train_loss", "train_accuracy": "epoch/train_accuracy",
              "test_loss": "epoch/test_loss", "test_accuracy": "epoch/test_accuracy"}


def write(folder, runs, selection):
    for name, run in selection.named(runs):
        own = folder.subfolder(name)
        begin = begin_of(run)
        own.write(f"events.out.tfevents.{int(begin):010d}.lockstep",
                  event_file(begin, scalars(run, begin, selection.steps_of(run))), own.kinds[0])
        own.finish()
        folder.written += own.written


def begin_of(run):
    """Returns the time at which the run file was created, in seconds since 1970; 0 if unknown."""
    text = str(run.attributes.get("date_utc", "")).replace("Z", "+00:00")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return found.replace(tzinfo=found.tzinfo or timezone.utc).timestamp()


def scalars(run, begin, steps):
    """Yields (time, step, {tag: value}) of the steps, and of each epoch with its last step. The time
    is the begin of the run plus the duration of the steps."""
    rows = np.arange(len(run.step))
    seconds = step_seconds(run, rows)
    phases = by_blocks(lambda s: s.mean(axis=1), rows, run.phase_seconds)
    time = begin + np.cumsum(seconds)
    last = {int(np.flatnonzero(run.epoch == number)[-1]): row
            for row, number in enumerate(run.epoch_numbers) if np.any(run.epoch == number)}
    for index in steps:
        step = int(run.step[index]) + 1
        yield time[index], step, {
            "step/loss": run.loss[index], "step/learning_rate": run.learning_rate[index],
            "step/seconds": seconds[index],
            "step/images_per_second": run.images[index] / seconds[index] if seconds[index] else 0,
            **{f"phase_seconds/{name}": phases[index, i] for i, name in enumerate(run.phases)}}
        if index in last:
            values = {tag: run.epochs[name][last[index]] for name, tag in EPOCH_TAGS.items()
                      if name in run.epochs}
            yield time[index], step, values


def event_file(begin, values):
    """Yields the records of an event file."""
    yield record(double(1, begin) + text(3, "brain.Event:2"))
    for time, step, tags in values:
        summary = b"".join(
            message(1, text(1, tag) + single(2, value)) for tag, value in tags.items()
            if np.isfinite(value))
        if summary:
            yield record(double(1, time) + integer(2, step) + message(5, summary))


def record(data):
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc(length)) + data
            + struct.pack("<I", masked_crc(data)))


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def masked_crc(data):
    """Returns the checksum as records store it: rotated, plus a constant."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found + bytes([value]))


def integer(field, value):
    return varint(field << 3) + varint(value)


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field, value):
    return varint(field << 3 | 5) + np.float32(value).tobytes()  # larger numbers are infinite


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def text(field, value):
    return message(field, value.encode())
