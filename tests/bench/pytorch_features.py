"""Which PyTorch is installed, and what it lacks for pytorch_gpu.py.

usage: pytorch_features.py

Prints one JSON object: `torch`, the version (null if there is none), and `missing`, a list of what is needed and not there.
"""

import inspect
import json


def missing_features(torch):
    """Names of what pytorch_gpu.py uses and this version of PyTorch does not have."""
    fused = "fused" in inspect.signature(torch.optim.SGD.__init__).parameters
    compiles = callable(getattr(torch, "compile", None))
    marks = hasattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin")
    needed = {"torch.compile": compiles, "SGD(fused=True)": fused,
              "torch.compiler.cudagraph_mark_step_begin": marks}
    return [name for name, is_there in needed.items() if not is_there]


def main():
    try:
        import torch
    except ModuleNotFoundError:
        print(json.dumps({"torch": None, "missing": ["PyTorch"]}))
    except Exception as error:  # an installation that is damaged or does not fit its libraries
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(json.dumps({"torch": None, "missing": [f"a PyTorch that can be imported ({why})"]}))
    else:
        print(json.dumps({"torch": torch.__version__, "missing": missing_features(torch)}))


if __name__ == "__main__":
    main()
