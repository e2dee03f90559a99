"""Explanation of a set of runs: model fits, causes of lost efficiency, stragglers and advice."""
