"""Student's t: how many standard errors a 95 % interval reaches to each side."""

NORMAL = 1.95996
# The 97.5 % quantiles for 1 to 30 degrees of freedom, from the usual table.
_FEW = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def reach(freedom: float) -> float:
    """The 97.5 % quantile; fractions are rounded down, and under one stands for not known: normal.

    Source: beyond the table two terms of the Cornish-Fisher expansion, right to 0.001.

    >>> reach(2), reach(22.9), round(reach(60), 3), reach(0)
    (4.303, 2.074, 2.0, 1.95996)
    """
    if freedom < 1:
        return NORMAL
    if freedom < len(_FEW) + 1:
        return _FEW[int(freedom) - 1]
    square = NORMAL**2
    first = (square + 1) / (4 * freedom)
    second = (5 * square**2 + 16 * square + 3) / (96 * freedom**2)
    return NORMAL * (1 + first + second)
