# SPDX-License-Identifier: BSD-3-Clause
"""Files of weights: those of PyTorch, safetensors and NumPy, and HDF5 files of Lockstep."""

import inspect
import io
import json
import pickle
import shlex
import zipfile
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
from lockstep_report.errors import (
    INPUT,
    OUTPUT,
    USAGE,
    ReportError,
    cannot_read,
    reason_of,
    require_module,
)
from lockstep_report.output import require_new, write_and_rename
from lockstep_report.runfile import schema
from lockstep_report.runfile.file_kind import (
    HDF5,
    JSON,
    NUMPY_ZIP,
    PICKLE,
    PYTORCH,
    SAFETENSORS,
    kind_of,
    other_kind,
    read_head,
    wrong_kind,
)
from lockstep_report.runfile.hdf5_access import open_run, read_attributes, safe_objects
from lockstep_report.runfile.settings import some_of

from lockstep_weights import unpickling

PTH, SAFE = (".pth", ".pt"), ".safetensors"


def read_pytorch(path):
    """Returns what a file of PyTorch, safetensors or NumPy, or an index of several such files,
    contains: objects of Python with tensors in their types. Raises `ReportError`."""
    if Path(path).is_dir():
        raise ReportError(INPUT, f"{path}: {advice_on_folder(Path(path))}")
    try:
        kind = kind_of(read_head(path))
    except OSError as error:
        raise cannot_read(path, error) from error
    readers = {
        PYTORCH: load_archive,
        PICKLE: load_pickle,
        SAFETENSORS: load_safetensors,
        NUMPY_ZIP: load_numpy,
        JSON: load_index,
    }
    if kind not in readers:
        advice = (
            "give it to lockstep as it is, with --init-from"
            if kind == HDF5
            else "give a file of torch.save"
        )
        raise wrong_weights(path, kind, advice)
    return readers[kind](path)


def wrong_weights(path, kind, advice):
    return other_kind(path, "weights of PyTorch", kind, advice)


def advice_on_folder(folder):
    """Returns what the folder is, and what to give instead."""
    if (folder / ".metadata").exists() or any(folder.glob("*.distcp")):
        return (
            "a checkpoint of torch.distributed.checkpoint (FSDP), one file per process; convert"
            " it: python3 -m torch.distributed.checkpoint.format_utils dcp_to_torch"
            f" {shlex.quote(str(folder))} OTHER.pth"
        )
    files = sorted(
        each.name
        for each in folder.iterdir()
        if each.suffix in (*PTH, SAFE, ".bin", ".ckpt", ".npz", ".json")
    )
    index = [name for name in files if name.endswith(".index.json")]
    return "a folder; give the file with the weights in it" + (
        f", for example {(index or files)[0]}" if files else ""
    )


def load_index(path):
    """Reads the files that an index of Hugging Face names: {"weight_map": {tensor: file}}."""
    try:
        names = json.loads(Path(path).read_bytes())["weight_map"]
        files = list(dict.fromkeys(names.values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong_weights(path, JSON, "give a file of torch.save") from None
    places = {name: Path(path).parent / Path(name).name for name in files}
    missing = [name for name, place in places.items() if not place.exists()]
    if missing:
        raise ReportError(
            INPUT,
            f"{path}: lacks {some_of(missing)} of its {len(files)} files; download all of them to"
            " its folder",
        )
    content = {
        name: read_pytorch(str(place)) for name, place in places.items() if place != Path(path)
    }
    lost = [tensor for tensor, name in names.items() if tensor not in content.get(name, ())]
    if lost:
        raise ReportError(
            INPUT, f"{path}: {some_of(lost)}: not in the files that it names; download them again"
        )
    return {tensor: content[name][tensor] for tensor, name in names.items()}


def load_archive(path):
    """Reads the format of torch.save. PyTorch itself does not verify the checksums, and runs
    programs of TorchScript."""
    with damaged(path), zipfile.ZipFile(path) as archive:
        if any(name.endswith("/constants.pkl") for name in archive.namelist()):
            raise ReportError(
                INPUT,
                f"{path}: a program of TorchScript, which has code; save its weights alone: "
                "torch.save(torch.jit.load(FILE).state_dict(), OTHER)",
            )
        if archive.testzip():
            raise ValueError(f"wrong checksum of {archive.testzip()}")
    torch = require_torch(path)
    with damaged(path):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except (
            pickle.UnpicklingError
        ):  # it contains other objects, for example the options of the program
            return unpickling.read(torch, path)


def load_pickle(path):
    """Reads the format of torch.save before PyTorch 1.6."""
    torch = require_torch(path)
    with damaged(path):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise ReportError(
                INPUT,
                f"{path}: contains more than tensors; save the weights alone where its classes are:"
                " torch.save(model.state_dict(), FILE)",
            ) from error


def require_torch(path):
    torch = require_module("torch", path)
    if "weights_only" not in inspect.signature(torch.load).parameters:
        raise ReportError(
            USAGE, f"{path} needs PyTorch 1.13 or newer, which reads weights without executing code"
        )
    return torch


def load_safetensors(path):
    require_module("torch", path)
    library = require_module("safetensors.torch", path, "pip install safetensors")
    with damaged(path):
        return library.load_file(path)


def load_numpy(path):
    with damaged(path), np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


@contextmanager
def damaged(path):
    """Raises `ReportError` (input) for the errors of a library that reads a file; they have many
    types."""
    try:
        yield
    except ReportError:
        raise
    except Exception as error:
        raise ReportError(
            INPUT,
            f"{path}: damaged, cut off or of an unknown type"
            f" ({reason_of(error) or type(error).__name__})",
        ) from error


def array_of(path, name, tensor):
    """Returns a tensor of PyTorch or NumPy as an array; bfloat16, which NumPy lacks, as float32."""
    try:
        if hasattr(tensor, "detach"):
            tensor = (
                tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
            ).numpy()
        if tensor.ndim == 0 or tensor.dtype.kind == "f":
            return tensor
        reason = f"its type is {tensor.dtype}"
    except (RuntimeError, TypeError) as error:  # a sparse or quantised tensor
        reason = reason_of(error)
    raise ReportError(
        INPUT, f"{path}: {name} is no dense tensor of floating-point numbers ({reason})"
    )


def read_lockstep(path):
    """Returns the state in a checkpoint or `--init-from` file of Lockstep. Raises `ReportError`
    (input)."""
    try:
        kind = kind_of(read_head(path))
    except OSError as error:
        raise cannot_read(path, error) from error
    if kind != HDF5:
        raise wrong_kind(
            path, "a checkpoint of Lockstep", kind, "give a checkpoint-STEP.h5 of --checkpoint-dir"
        )
    with open_run(Path(path)) as file:
        if read_attributes(file).get("format") == schema.FORMAT:
            raise ReportError(
                INPUT,
                f"{path}: a run file, which has times but no weights; give a checkpoint-STEP.h5 of"
                " its --checkpoint-dir",
            )
        objects = safe_objects(Path(path), file)
        group = "/state/" if "/state" in objects else "/"
        tensors = {name: item for name, item in objects.items() if isinstance(item, h5py.Dataset)}
        with damaged(path):
            return {
                name.removeprefix(group): item[()]
                for name, item in tensors.items()
                if name.startswith(group)
            }


def write(path, content):
    """Writes the bytes `content` to a new file, completely or not at all."""
    require_new(path)
    try:
        write_and_rename(Path(path), [content])
    except OSError as error:
        raise ReportError(
            OUTPUT, f"{path}: cannot be written ({reason_of(error)}); give another file"
        ) from error


def hdf5_bytes(state):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, array in state.items():
            file[f"state/{name}"] = array
    return buffer.getbuffer()


def require_writer(path):
    """Returns the function that makes a file with the suffix of `path` from a state."""
    if path.endswith(PTH):
        torch = require_module("torch", path)
    elif path.endswith(SAFE):
        torch = require_module("torch", path)
        library = require_module("safetensors.torch", path, "pip install safetensors")
    else:
        raise ReportError(
            USAGE,
            f"{path}: unknown format; name a file"
            f" {', '.join(f'NAME{suffix}' for suffix in (*PTH, SAFE))}",
        )

    def content(state):
        tensors = OrderedDict(
            (name, torch.from_numpy(np.array(array))) for name, array in state.items()
        )
        if path.endswith(SAFE):
            return library.save(tensors)
        buffer = io.BytesIO()
        torch.save(tensors, buffer)
        return buffer.getbuffer()

    return content
