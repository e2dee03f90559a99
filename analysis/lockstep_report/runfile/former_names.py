"""Current names of option values that run files of earlier versions contain under former names."""

from lockstep_report.runfile import schema

# The option has the values of the dataset.
ALL_REDUCE_ALGORITHMS = schema.dataset("/allreduce/algorithm").former_values


def with_current_names(config):
    """Returns the options of `config` with the current names of their values."""
    return {name: ALL_REDUCE_ALGORITHMS.get(value, value) if name in ("all-reduce", "all_reduce") else value
            for name, value in config.items()}
