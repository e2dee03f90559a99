# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the rules report violations. Each test writes a small source tree with at most one
seeded violation."""

import pytest
import rules

CLEAN = {
    "include/lockstep/core/error.hpp": "#pragma once\nnamespace lockstep::core {}\n",
    "include/lockstep/graph/graph.hpp": (
        '#pragma once\n#include "lockstep/core/error.hpp"\nnamespace lockstep::graph {}\n'
    ),
    "include/lockstep/comm/communicator.hpp": (
        '#pragma once\n#include "lockstep/core/error.hpp"\nnamespace lockstep::comm {}\n'
    ),
    "src/graph/models/models.hpp": '#pragma once\n#include "lockstep/graph/graph.hpp"\n',
    "src/graph/models/vgg.cpp": (
        '#include <vector>\n#include "models.hpp"\n#include "lockstep/core/error.hpp"\n'
    ),
    "src/graph/cut.cpp": '#include "models/models.hpp"\n',
    "include/lockstep/comm/gradient_transport.hpp": "#pragma once\nnamespace lockstep::comm {}\n",
    "src/comm/make_gradient_transport.cpp": (
        '#if LOCKSTEP_HAVE_CUDA\n#include "lockstep/comm/communicator.hpp"\n#endif\n'
    ),
    "include/lockstep/train/config.hpp": "#pragma once\nnamespace lockstep::train {}\n",
    "src/train/replica.hpp": '#pragma once\n#include "timing/step_clock.hpp"\n',
    "src/train/timing/step_clock.hpp": '#pragma once\n#include "lockstep/train/config.hpp"\n',
    "src/train/timing/phase.hpp": "#pragma once\n",
    "src/train/pipeline/report.hpp": "#pragma once\n",
    "src/train/pipeline/report.cpp": '#include "../timing/step_clock.hpp"\n',
    "src/backend/cpu/plan.hpp": '#pragma once\n#include "cells/cells.hpp"\n',
    "src/backend/cpu/context.hpp": "#pragma once\n",
    "src/backend/cpu/cells/cells.hpp": '#pragma once\n#include "../context.hpp"\n',
    "src/backend/cpu/cells/sizes.hpp": "#pragma once\n",
    "src/backend/cpu/cells/tiles.hpp": "#pragma once\n",
    "src/backend/cpu/cells/tiles.cpp": '#include "tiles.hpp"\n#include "cells.hpp"\n',
    "src/comm/reducers/registry.hpp": "#pragma once\n",
    "src/app/guard/watchdog.hpp": "#pragma once\n",
    "include/lockstep/core/meter/host_meter.hpp": "#pragma once\nnamespace lockstep::core {}\n",
    "src/graph/CMakeLists.txt": (
        "lockstep_module(graph SOURCES graph.cpp USES core LIBRARIES fmt::fmt)\n"
    ),
}


# Headers of the files a.cpp with seeded violations.
for folder in ("backend", "comm", "core", "graph", "train/pipeline", "train/timing"):
    CLEAN[f"src/{folder}/a.hpp"] = "#pragma once\n"


@pytest.fixture
def tree(tmp_path):
    """A function that writes the files of CLEAN, replaces or adds `files`, and returns the root of
    the tree."""

    def build(files=None):
        for name, text in {**CLEAN, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return build


def violations_of(root):
    return [violation for rule in rules.RULES for violation in rule(root)]


def test_clean_tree_has_no_violations(tree):
    assert violations_of(tree()) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "src/graph/a.cpp",
            '#include "lockstep/comm/communicator.hpp"\n',
            "graph may not include comm",
        ),
        (
            "src/graph/a.cpp",
            "  #  include <lockstep/comm/communicator.hpp>\n",
            "graph may not include comm",
        ),
        (
            "include/lockstep/core/a.hpp",
            '#pragma once\n#include "lockstep/graph/graph.hpp"\nnamespace lockstep::core {}\n',
            "core may not include graph",
        ),
        ("src/comm/a.cpp", '#include "../graph/models/models.hpp"\n', "private to another module"),
        ("src/comm/a.cpp", '#include "graph/models/models.hpp"\n', "private to another module"),
        ("src/comm/a.cpp", "#include <models/models.hpp>\n", "private header"),
        ("src/comm/a.cpp", '#include "missing.hpp"\n', "is not found"),
        ("src/comm/a.cpp", '#include "lockstep/core/missing.hpp"\n', "is not a public header"),
        (
            "include/lockstep/graph/a.hpp",
            (
                '#pragma once\n#include "../../../src/graph/models/models.hpp"\nnamespace'
                " lockstep::graph {}\n"
            ),
            "a public header may not include a private one",
        ),
        (
            "src/train/timing/a.cpp",
            '#include "../replica.hpp"\n',
            "train/timing may not include src/train/replica.hpp",
        ),
        (
            "src/train/pipeline/a.cpp",
            '#include "../../train/replica.hpp"\n',
            "train/pipeline may not include",
        ),
        (
            "src/train/timing/a.cpp",
            '#include "../pipeline/report.hpp"\n',
            "train/timing may not include src/train/pipeline",
        ),
        (
            "src/train/config.cpp",
            '#include "timing/phase.hpp"\n',
            "train may not include src/train/timing",
        ),
        ("src/train/unknown/a.hpp", "#pragma once\n", "is in no folder of FOLDERS"),
        (
            "src/backend/cpu/kernels/a.hpp",
            '#pragma once\n#include "../cells/cells.hpp"\n',
            "backend/cpu/kernels may not include src/backend/cpu/cells/cells.hpp",
        ),
        (
            "src/backend/cpu/cells/a.hpp",
            '#pragma once\n#include "../plan.hpp"\n',
            "backend/cpu/cells may not include src/backend/cpu/plan.hpp",
        ),
        (
            "src/backend/cpu/context.hpp",
            '#pragma once\n#include "cells/sizes.hpp"\n',
            "backend/cpu may not include src/backend/cpu/cells/sizes.hpp",
        ),
        (
            "src/backend/cuda/dnn/a.hpp",
            '#pragma once\n#include "../../cpu/cells/cells.hpp"\n',
            "backend/cuda/dnn may not include src/backend/cpu/cells/cells.hpp",
        ),
        (
            "src/comm/all_reduce/a.hpp",
            '#pragma once\n#include "../reducers/registry.hpp"\n',
            "comm/all_reduce may not include src/comm/reducers",
        ),
        (
            "src/app/options/a.hpp",
            '#pragma once\n#include "../guard/watchdog.hpp"\n',
            "app/options may not include src/app/guard",
        ),
        (
            "include/lockstep/core/process/limits.hpp",
            (
                '#pragma once\n#include "lockstep/core/meter/host_meter.hpp"\nnamespace'
                " lockstep::core {}\n"
            ),
            "core/process may not include include/lockstep/core/meter",
        ),
        (
            "src/backend/cpu/cells/cells.hpp",
            '#pragma once\n#include "tiles.hpp"\n',
            "is in a circle of components: backend/cpu/cells/cells, backend/cpu/cells/tiles",
        ),
        (
            "src/backend/a.cpp",
            "#ifdef LOCKSTEP_HAVE_CUDA\n#endif\n",
            "src/backend/a.cpp:1: tests for CUDA",
        ),
        (
            "src/backend/a.cpp",
            "\n# if defined(X) || \\\n  defined(__CUDACC__)\n#endif\n",
            "src/backend/a.cpp:2: tests for CUDA",
        ),
        ("src/backend/cuda/a.cu", "#ifndef __CUDA_ARCH__\n#endif\n", "tests for CUDA"),
        ("src/comm/a.cpp", "#if 0\n#elif USE_NCCL\n#endif\n", "src/comm/a.cpp:2: tests for CUDA"),
        ("src/core/a.cpp", "int x;\n" * 401, "401 lines"),
        ("src/core/a.hpp", "int x();\n", "no #pragma once"),
        (
            "include/lockstep/core/a.hpp",
            "#pragma once\nnamespace lockstep::data {}\n",
            "does not open namespace lockstep::core",
        ),
        ("src/core/a.hpp", "#pragma once\nusing namespace std;\n", "using namespace"),
        ("src/unknown/a.cpp", "int x;\n", "is in no module"),
        ("src/core/process/a.cpp", "int x;\n", "has no header a.hpp"),
        ("src/comm/error.cpp", "int x;\n", "has no header error.hpp"),
        (
            "src/graph/CMakeLists.txt",
            "lockstep_module(graph SOURCES graph.cpp USES core data LIBRARIES x)\n",
            "graph may not use data",
        ),
    ],
)
def test_seeded_violation_is_reported(tree, name, text, expected):
    violations = violations_of(tree({name: text}))
    assert len(violations) == 1, violations
    assert expected in violations[0]


def test_circle_of_files_is_reported(tree):
    files = {
        "src/core/a.hpp": '#pragma once\n#include "b.hpp"\n',
        "src/core/b.hpp": '#pragma once\n#include "a.hpp"\n',
    }
    violations = violations_of(tree(files))
    assert len(violations) == 2, violations
    assert "is in a circle of files: src/core/a.hpp, src/core/b.hpp" in violations[0]
    assert "is in a circle of components: core/a, core/b" in violations[1]


def test_long_file_with_a_reason_is_permitted(tree):
    head = "// Longer than 400 lines: one table of constants that cannot be split by subject.\n"
    assert violations_of(tree({"src/core/a.cpp": head + "int x;\n" * 401})) == []


def test_including_a_header_that_cmake_generates_is_permitted(tree):
    files = {
        "src/core/a.cpp": '#include "build_info.hpp"\n',
        "src/core/build_info.hpp.in": "#pragma once\n",
    }
    assert violations_of(tree(files)) == []


def test_file_of_maximum_length_is_permitted(tree):
    assert violations_of(tree({"src/core/a.cpp": "int x;\n" * 400})) == []


def test_includes_in_comments_and_strings_are_ignored(tree):
    text = '// #include "lockstep/comm/communicator.hpp"\nconst char* x = "#ifdef CUDA";\n'
    assert violations_of(tree({"src/graph/a.cpp": text})) == []


def test_documented_dependencies_returns_the_table_of_the_page():
    page = (
        "text\n\n| module | may include | contents |\n|---|---|---|\n| `core` | - | x |\n| `graph`"
        " | `core` | `y` |\n\nend\n"
    )
    assert rules.documented_dependencies(page, "module") == {"core": set(), "graph": {"core"}}
    assert rules.documented_dependencies("no table", "module") == {}
