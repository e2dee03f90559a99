"""Current names of option values that run files of earlier versions contain under former names."""

ALL_REDUCE_ALGORITHMS = {
    "shared": "shared-memory",
    "two-level": "hierarchical",
    "two_level": "hierarchical",
    "pieces": "direct",
}


def current_algorithm(name):
    """Returns the current name of an all-reduce algorithm."""
    return ALL_REDUCE_ALGORITHMS.get(name, name)


def with_current_names(config):
    """Returns the options of `config` with the current names of their values."""
    return {name: current_algorithm(value) if name in ("all-reduce", "all_reduce") else value
            for name, value in config.items()}
