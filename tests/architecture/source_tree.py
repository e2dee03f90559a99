# SPDX-License-Identifier: BSD-3-Clause
"""Reads the files of a source tree for the rules of its structure: modules, folders, includes."""

import os
import pathlib
import re

SOURCE_SUFFIXES = {".hpp", ".cpp", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(root):
    """Yields (path relative to root, text) for every C++ and CUDA file under src and include."""
    for top in ("include", "src"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield path.relative_to(root), path.read_text(encoding="utf-8")


def module_of(path):
    """Returns the module of a file in src/MODULE or include/lockstep/MODULE, or None for other
    paths."""
    parts = path.parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ("include", "lockstep") and len(parts) > 3:
        return parts[2]
    return None


def folder_of(path):
    """Returns the folder of a file in a module, MODULE/FOLDER/FOLDER, or MODULE for a file in the
    folder of the module itself."""
    folders = path.parts[2 if path.parts[0] == "src" else 3 : -1]
    return "/".join([module_of(path), *folders])


def with_parents(folder):
    """Returns a folder of a module and the folders that contain it, from the module on."""
    names = folder.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]


def is_inside(folder, other):
    """Returns whether a folder is inside another one."""
    return folder.startswith(other + "/")


def component_of(path):
    """Returns MODULE/FOLDER/NAME, the same for the header and the .cpp file of a component."""
    return f"{folder_of(path)}/{path.stem}"


def line_of(text, position):
    """Returns the line number, from 1, of a character of `text`."""
    return text.count("\n", 0, position) + 1


def included_file(root, path, name):
    """Returns the path, relative to `root`, of the file that `path` includes by `name`; None for
    files of others."""
    for target in (path.parent / name, pathlib.Path("include") / name):
        if (root / target).is_file():
            return pathlib.Path(os.path.normpath(target))
    return None


def included_files(root):
    """Yields (path, line, included path) for every include of a file of the same module."""
    for path, text in sources(root):
        for match in INCLUDE.finditer(text):
            target = included_file(root, path, match.group(2))
            if target is not None and module_of(target) == module_of(path):
                yield path, line_of(text, match.start()), target


def own_headers(root, path):
    """Returns the headers that a .cpp file of a module may have: NAME.hpp in its folder, or in the
    same folder of include/lockstep."""
    header = path.with_suffix(".hpp")
    public = pathlib.Path("include", "lockstep", *header.parts[1:])
    return [name for name in (header, public) if (root / name).is_file()]
