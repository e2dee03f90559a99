"""Prediction of the step time on other numbers of ranks. Everything here is labelled "predicted"."""
