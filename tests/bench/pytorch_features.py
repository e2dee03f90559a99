# SPDX-License-Identifier: BSD-3-Clause
"""Prints the installed version of PyTorch and the features that pytorch_gpu.py needs and this version does not have.

usage: pytorch_features.py

Prints one JSON object: `torch` is the version (null if PyTorch cannot be imported), and `missing` is a list of the
features that are needed but not available.
"""

import inspect
import json


def missing_features(torch):
    """Returns the names of the features that pytorch_gpu.py uses and this version of PyTorch lacks."""
    has_fused_sgd = "fused" in inspect.signature(torch.optim.SGD.__init__).parameters
    has_compile = callable(getattr(torch, "compile", None))
    has_step_begin = hasattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin")
    needed = {"torch.compile": has_compile, "SGD(fused=True)": has_fused_sgd,
              "torch.compiler.cudagraph_mark_step_begin": has_step_begin}
    return [name for name, is_available in needed.items() if not is_available]


def main():
    try:
        import torch
    except ModuleNotFoundError:
        print(json.dumps({"torch": None, "missing": ["PyTorch"]}))
    except Exception as error:  # a damaged installation, or one with incompatible libraries
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(json.dumps({"torch": None, "missing": [f"a PyTorch that can be imported ({reason})"]}))
    else:
        print(json.dumps({"torch": torch.__version__, "missing": missing_features(torch)}))


if __name__ == "__main__":
    main()
