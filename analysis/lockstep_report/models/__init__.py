# SPDX-License-Identifier: BSD-3-Clause
"""Values that are not measured but follow from measured ones by a model: causes of lost efficiency,
fits, advice, predictions, and candidate formulas of published values. Values, and sentences about
them; no tables or figures.
"""
