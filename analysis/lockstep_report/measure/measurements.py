"""The values of the quantities that the run file stores per epoch and rank."""

from lockstep_report.measure import metrics
from lockstep_report.runfile.quantities import QUANTITIES


def measurements_of(run, epoch):
    """Returns {name: maximum over the ranks} of the quantities that all ranks measured in `epoch`,
    in the units of the run file."""
    found = {}
    for quantity in QUANTITIES:
        values = metrics.epoch_reading(run.epochs, quantity.name, run.epoch_numbers, epoch)
        if values is not None:
            found[quantity.name] = float(values.max())
    return found
