"""The timed stages: how samples become a time that ranks.

What computes is pure, with clock and randomness as arguments: `policy` (how often to measure, and
what the machine has measured before), `process` (one case in one fresh process) and the `procedure`
that measures it, `estimators`, and `combination` of processes to a time. What runs is `stage` (the
timed stage), `duel` (two submissions in alternation) and `unranked` (profiles, and batches of short
calls).
"""
