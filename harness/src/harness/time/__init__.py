"""The timed stages: how samples become a time that ranks.

What computes is pure, with clock and randomness as arguments: `policy` (how often to measure),
`process` (one case in one fresh process of each side) and the `procedure` that measures it,
`estimators`, and `combination` of processes to a time. What runs are the two `sides`, the `stage`
that times them in alternation, the `duel` of two submissions, and `batches` of short calls.
"""
