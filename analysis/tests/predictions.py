# SPDX-License-Identifier: BSD-3-Clause
"""Networks and predictions for tests."""

from lockstep_report.measure.metrics import Bounds
from lockstep_report.measure.points import point_of
from lockstep_report.models.prediction.basis import best_bases
from lockstep_report.models.prediction.network import Level, Network
from lockstep_report.models.prediction.rows import prediction_rows


def ring_network(alpha=1e-5, beta=1e-9, spread=0.0):
    """A network of MPI whose values are within ± `spread` (relative)."""

    def of(value):
        return Bounds(value * (1 - spread), value * (1 + spread))

    return Network("test", "MPI", "ring", (Level("links", None, of(alpha), of(beta), True),))


def trained(runs):
    """Returns [(run, point)]."""
    return [(run, point_of(run)) for run in runs]


def predicted(runs, *arguments, **options):
    """Returns the rows of `prediction_rows` for the runs and all bases among them."""
    found = trained(runs)
    return prediction_rows(found, best_bases(found), *arguments, **options)
