"""Tests that the rules report violations: each test writes a small source tree with one seeded violation."""

import pytest

import rules

CLEAN = {
    "include/lockstep/core/error.hpp": "#pragma once\nnamespace lockstep::core {}\n",
    "include/lockstep/graph/graph.hpp":
        '#pragma once\n#include "lockstep/core/error.hpp"\nnamespace lockstep::graph {}\n',
    "include/lockstep/comm/communicator.hpp":
        '#pragma once\n#include "lockstep/core/error.hpp"\nnamespace lockstep::comm {}\n',
    "src/graph/models/models.hpp": '#pragma once\n#include "lockstep/graph/graph.hpp"\n',
    "src/graph/models/vgg.cpp": '#include <vector>\n#include "models.hpp"\n#include "lockstep/core/error.hpp"\n',
    "src/graph/graph.cpp": '#include "models/models.hpp"\n',
    "src/comm/gradient_transport.cpp": '#if LOCKSTEP_HAVE_CUDA\n#include "lockstep/comm/communicator.hpp"\n#endif\n',
    "src/graph/CMakeLists.txt": "lockstep_module(graph SOURCES graph.cpp USES core LIBRARIES fmt::fmt)\n",
}


@pytest.fixture
def tree(tmp_path):
    """A function that writes the files of CLEAN, replaces or adds those in `faults`, and returns the root."""

    def build(faults=None):
        for name, text in {**CLEAN, **(faults or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return build


def all_faults(root):
    return [fault for rule in rules.RULES for fault in rule(root)]


def test_clean_tree_has_no_faults(tree):
    assert all_faults(tree()) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("src/graph/a.cpp", '#include "lockstep/comm/communicator.hpp"\n', "graph may not include comm"),
        ("src/graph/a.cpp", "  #  include <lockstep/comm/communicator.hpp>\n", "graph may not include comm"),
        ("include/lockstep/core/a.hpp",
         '#pragma once\n#include "lockstep/graph/graph.hpp"\nnamespace lockstep::core {}\n',
         "core may not include graph"),
        ("src/comm/a.cpp", '#include "../graph/models/models.hpp"\n', "private to another module"),
        ("src/comm/a.cpp", '#include "graph/models/models.hpp"\n', "private to another module"),
        ("src/comm/a.cpp", "#include <models/models.hpp>\n", "private header"),
        ("src/comm/a.cpp", '#include "nowhere.hpp"\n', "is not found"),
        ("src/comm/a.cpp", '#include "lockstep/core/nowhere.hpp"\n', "is not a public header"),
        ("include/lockstep/graph/a.hpp",
         '#pragma once\n#include "../../../src/graph/models/models.hpp"\nnamespace lockstep::graph {}\n',
         "a public header may not include a private one"),
        ("src/backend/a.cpp", "#ifdef LOCKSTEP_HAVE_CUDA\n#endif\n", "src/backend/a.cpp:1: tests for CUDA"),
        ("src/backend/a.cpp", "\n# if defined(X) || \\\n  defined(__CUDACC__)\n#endif\n", "src/backend/a.cpp:2: tests for CUDA"),
        ("src/backend/cuda/a.cu", "#ifndef __CUDA_ARCH__\n#endif\n", "tests for CUDA"),
        ("src/comm/a.cpp", "#if 0\n#elif USE_NCCL\n#endif\n", "src/comm/a.cpp:2: tests for CUDA"),
        ("src/core/a.cpp", "int x;\n" * 401, "401 lines"),
        ("src/core/a.hpp", "int x();\n", "no #pragma once"),
        ("include/lockstep/core/a.hpp", "#pragma once\nnamespace lockstep::data {}\n", "does not open namespace lockstep::core"),
        ("src/core/a.hpp", "#pragma once\nusing namespace std;\n", "using namespace"),
        ("src/cellar/a.cpp", "int x;\n", "is in no module"),
        ("src/graph/CMakeLists.txt", "lockstep_module(graph SOURCES graph.cpp USES core data LIBRARIES x)\n",
         "graph may not use data"),
    ],
)
def test_seeded_violation_is_reported(tree, name, text, expected):
    faults = all_faults(tree({name: text}))
    assert len(faults) == 1, faults
    assert expected in faults[0]


def test_long_file_with_a_reason_may_stay(tree):
    head = "// Longer than 400 lines: one table of constants, split nowhere sensible.\n"
    assert all_faults(tree({"src/core/a.cpp": head + "int x;\n" * 401})) == []


def test_header_made_by_cmake_may_be_included(tree):
    files = {"src/core/a.cpp": '#include "build_info.hpp"\n', "src/core/build_info.hpp.in": "#pragma once\n"}
    assert all_faults(tree(files)) == []


def test_four_hundred_lines_may_stay(tree):
    assert all_faults(tree({"src/core/a.cpp": "int x;\n" * 400})) == []


def test_comment_and_string_are_not_includes(tree):
    text = '// #include "lockstep/comm/communicator.hpp"\nconst char* x = "#ifdef CUDA";\n'
    assert all_faults(tree({"src/graph/a.cpp": text})) == []


def test_documented_dependencies_are_read_from_the_page():
    page = "words\n\n| module | may include | holds |\n|---|---|---|\n| `core` | - | x |\n| `graph` | `core` | `y` |\n\nend\n"
    assert rules.documented_dependencies(page) == {"core": set(), "graph": {"core"}}
    assert rules.documented_dependencies("no table") == {}
