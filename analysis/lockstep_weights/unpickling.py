# SPDX-License-Identifier: BSD-3-Clause
"""Reads the tensors of an archive of torch.save that contains other objects as well, without
executing its code: every object of an unknown class becomes a `StandIn`.
`torch.load(weights_only=True)` refuses such files; that of PyTorch 1.13 even those with a Python
float. The argument pickle_module of torch.load is no alternative, because PyTorch 1.13 ignores it.
"""

import pickle
import zipfile
from collections import OrderedDict

TYPES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


class StandIn:
    """Takes the place of an object or a class. It ignores what the file does with it."""

    def __init__(self, *_, **__):
        pass

    def ignore(self, *_, **__):
        return self

    __call__ = __setstate__ = __setitem__ = append = extend = add = ignore


class Unpickler(pickle.Unpickler):
    """Calls only the functions of `known`."""

    def __init__(self, torch, archive, data):
        super().__init__(archive.open(data))
        self.torch, self.archive, self.folder = torch, archive, data.removesuffix("data.pkl")
        self.known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): tuple,
            ("torch._utils", "_rebuild_tensor_v2"): self.tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }

    def find_class(self, module, name):
        return self.known.get((module, name)) or type(name, (StandIn,), {"__module__": module})

    def persistent_load(self, saved):
        storage, key = saved[1:3]  # "storage", type, key, device, number of elements
        data = self.archive.read(f"{self.folder}data/{key}")
        return self.torch.frombuffer(
            bytearray(data), dtype=getattr(self.torch, TYPES[storage.__name__])
        )

    def tensor(self, storage, offset, size, stride, *_):
        return storage.as_strided(size, stride, offset).clone()


def read(torch, path):
    """Returns the content of the archive."""
    with zipfile.ZipFile(path) as archive:
        data = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return Unpickler(torch, archive, data).load()
