# SPDX-License-Identifier: BSD-3-Clause
"""Rules inside a module: permitted dependencies between its folders, and no circles between its
files and components. Each rule takes the root of a source tree and returns its violations, one line
each.

The tables of folders in docs/architecture.md must equal FOLDERS and BASE.
"""

from source_tree import (
    component_of,
    folder_of,
    included_files,
    is_inside,
    module_of,
    sources,
    with_parents,
)

# Maps a folder of a module (src/MODULE/FOLDER and include/lockstep/MODULE/FOLDER) to the other
# folders of the module whose headers it may include. A folder depends only on folders above it, on
# those inside it, and on the files in BASE of the folders that contain it.
FOLDERS = {
    "core/process": set(),
    "core/meter": {"core/process"},
    "backend/reference": set(),
    "backend/cpu": set(),
    "backend/cpu/kernels": set(),
    "backend/cpu/cells": {"backend/cpu/kernels"},
    "backend/cpu/convolution": {"backend/cpu/cells", "backend/cpu/kernels"},
    "backend/cpu/operations": {
        "backend/cpu/convolution",
        "backend/cpu/cells",
        "backend/cpu/kernels",
    },
    "backend/cuda": set(),
    "backend/cuda/kernels": set(),
    "backend/cuda/device": {"backend/cuda/kernels"},
    "backend/cuda/dnn": {"backend/cuda/device", "backend/cuda/kernels"},
    "backend/cuda/batch_norm": {"backend/cuda/dnn", "backend/cuda/device", "backend/cuda/kernels"},
    "comm/all_reduce": set(),
    "comm/reducers": {"comm/all_reduce"},
    "comm/cuda": {"comm/reducers", "comm/all_reduce"},
    "train/timing": set(),
    "train/pipeline": {"train/timing"},
    "train/checkpoint": {"train/pipeline"},
    "app/options": set(),
    "app/guard": set(),
}

# Maps a folder to its own files, without suffix, that the folders inside it may include. They
# include no folder inside it.
BASE = {
    "core": {"error", "handle"},
    "backend": {
        "backend",
        "blueprint",
        "convolution_algorithm",
        "device",
        "feature_map",
        "fusion",
        "host_plan",
        "memory_planner",
        "operation",
        "operation_listener",
        "parameters",
        "recomputation",
        "step_executor",
    },
    "backend/cpu": {"context", "convolution_direction", "fused_statistics", "onednn"},
    "comm": {
        "agreed_error",
        "agreement",
        "all_reduce",
        "communicator",
        "elements",
        "gpu_checks",
        "gradient_reducer",
        "gradient_transport",
        "known_values",
        "launcher",
        "messages",
        "mpi_check",
        "mpi_library",
        "sweep",
        "swept_array",
    },
    "train": {
        "agreement",
        "config",
        "events",
        "plan_options",
        "run_summary",
        "step_result",
        "weights",
    },
    "app": set(),
}

# Maps a reason to includes (file, included file) that FOLDERS and BASE do not permit.
UPWARD_INCLUDES = {
    "backend/cuda changes only after it has been tested on a GPU": {
        ("src/backend/cuda/batch_norm/fusion_plan.cpp", "src/backend/cuda/state.hpp"),
        ("src/backend/cuda/batch_norm/passes.cpp", "src/backend/cuda/launch.hpp"),
        ("src/backend/cuda/batch_norm/passes.hpp", "src/backend/cuda/context.hpp"),
        ("src/backend/cuda/dnn/engine_trial.cpp", "src/backend/cuda/launch.hpp"),
    },
}

# Maps a reason to circles of components, which may include each other. A component is NAME.hpp with
# NAME.cpp.
CIRCLES = {
    "backend/cuda changes only after it has been tested on a GPU": [
        {
            "backend/cuda/batch_norm/fusion_plan",
            "backend/cuda/batch_norm/passes",
            "backend/cuda/batch_norm/trial",
            "backend/cuda/context",
            "backend/cuda/state",
        },
        {"backend/cuda/plan", "backend/cuda/step_executor"},
    ],
}


def may_include(path, target):
    """Returns whether FOLDERS and BASE permit that a file includes another of its module."""
    folder, other = folder_of(path), folder_of(target)
    if path.stem in BASE.get(folder, ()) and other == folder:
        return target.stem in BASE[folder]
    if is_inside(other, folder):
        return path.stem not in BASE.get(folder, ())
    if is_inside(folder, other):
        return target.stem in BASE.get(other, ())
    permitted = {name for part in with_parents(folder) for name in FOLDERS.get(part, ())}
    return other == folder or not permitted.isdisjoint(with_parents(other))


def forbidden_folder_includes(root):
    """Reports includes between the folders of a module that FOLDERS, BASE and UPWARD_INCLUDES do
    not permit, and folders that FOLDERS does not list."""
    violations = [
        f"{path}: is in no folder of FOLDERS"
        for path, _ in sources(root)
        if module_of(path) in BASE and folder_of(path) not in {*BASE, *FOLDERS}
    ]
    excepted = {pair for pairs in UPWARD_INCLUDES.values() for pair in pairs}
    return violations + [
        f"{path}:{line}: {folder_of(path)} may not include {target}"
        for path, line, target in included_files(root)
        if module_of(path) in BASE and not may_include(path, target)
        if (path.as_posix(), target.as_posix()) not in excepted
    ]


def circles(arrows):
    """Returns the circles of a graph, each as a sorted list of the nodes that reach each other.
    `arrows` maps a node to the nodes to which it has an arrow."""
    reached = {}
    for start in arrows:
        reached[start], next_nodes = set(), list(arrows[start])
        while next_nodes:
            node = next_nodes.pop()
            if node not in reached[start]:
                reached[start].add(node)
                next_nodes += arrows.get(node, ())
    found = {
        tuple(sorted(other for other in nodes if start in reached.get(other, ())))
        for start, nodes in reached.items()
        if start in nodes
    }
    return [list(circle) for circle in sorted(found)]


def file_circles(root):
    """Reports files that include each other, directly or through other files."""
    arrows = {}
    for path, _, target in included_files(root):
        arrows.setdefault(path.as_posix(), set()).add(target.as_posix())
    return [
        f"{circle[0]}: is in a circle of files: {', '.join(circle)}" for circle in circles(arrows)
    ]


def component_circles(root):
    """Returns the circles between the components of the modules. A component is NAME.hpp with
    NAME.cpp."""
    arrows = {}
    for path, _, target in included_files(root):
        if component_of(path) != component_of(target):
            arrows.setdefault(component_of(path), set()).add(component_of(target))
    return circles(arrows)


def forbidden_circles(root):
    """Reports circles between components that CIRCLES does not list."""
    excepted = [circle for found in CIRCLES.values() for circle in found]
    return [
        f"{circle[0]}: is in a circle of components: {', '.join(circle)}"
        for circle in component_circles(root)
        if not any(known.issuperset(circle) for known in excepted)
    ]


RULES = [forbidden_folder_includes, file_circles, forbidden_circles]
