"""How samples become a time that ranks: a procedure, its statistics and the machine's history.

Everything here is pure: the clock and chance are handed in, and samples come from a Source.

    source.Sample(time_us, flags=(), lost_us=0.0), source.Source: call(), null(), probe(),
        reference(name)
    policy.policy_for(device, mode, wall_s=None) -> Policy; Policy.processes: how many fresh ones
    history.History(): with_pass(process.references, shape, process.null_us, process.probe_us) ->
        History, for each good pass when the run is over; to_json() -> dict; from_json(body)
    process.Plan(policy, history, shape, is_gated=True): what the measurement of one case knows;
        `shape` is a text that is equal where null calls cost the same: the sizes of the memories
    procedure.measure(source, plan, now_s, below) -> Process: one case in one fresh process;
        pass time.monotonic and secrets.randbelow
    gates.settle(attempt, plan, health, pause) -> Process: `attempt` once, and once more if the
        machine was unfit. Errors: Noisy. (failure code `noisy`); pass lambda: () and time.sleep
    combination.combine(processes, plan) -> CaseTime: the fields that a CaseReport wants
    combination.figures(times) -> (sigma_run, tie_us), as a RunReport wants them
    records.record(processes, time, dropped) -> dict; records.compressed(cases) -> bytes: the file
        samples.json.gz
    duel.order(pairs) -> str; duel.compare(rounds) -> Comparison: "A", "B" or "equal", the ratio
"""
