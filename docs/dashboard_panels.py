"""What each Grafana dashboard shows: one dashboard for each question that an operator has."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from docs.alert_rules import alert_rules

RATE = "$__rate_interval"
GROUPED = re.compile(r"\bby \(([a-z_, ]+)\)")
SERVICES = "ingest|ranker|scheduler|gpu-agent|discord-edge|launcher"
NO_GPU = "without an NVIDIA driver on the agent's host"


class Query(NamedTuple):
    """An expression, and how Grafana names its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Stat:
    """The current value of an alert's condition; `part` chooses one of several.

    `unit` is Grafana's. `empty` says when a healthy platform has no series here.
    """

    alert: str
    title: str
    unit: str
    description: str
    part: int = 0
    empty: str = ""

    @property
    def queries(self) -> tuple[Query, ...]:
        """The left side of the condition; its series are named by what it is grouped by."""
        expr = alert_rules()[self.alert].conditions[self.part].expr
        grouped = GROUPED.search(expr)
        labels = grouped[1].split(", ") if grouped else ["job"] if expr.startswith("up{") else []
        return (Query(expr, " ".join(f"{{{{{label}}}}}" for label in labels if label != "le")),)


@dataclass(frozen=True)
class Graph:
    """Series over time; with an `alert`, a line shows the bound of its condition `part`."""

    title: str
    unit: str
    description: str
    queries: tuple[Query, ...]
    alert: str = ""
    part: int = 0
    empty: str = ""


Panel = Stat | Graph


@dataclass(frozen=True)
class Section:
    """A row of a dashboard with its title."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: `name` is that of its file and a part of its address."""

    name: str
    title: str
    description: str
    sections: tuple[Section, ...]

    @property
    def panels(self) -> list[Panel]:
        """All panels in order."""
        return [panel for section in self.sections for panel in section.panels]


def quantiles(metric: str, by: str = "", legend: str = "") -> tuple[Query, Query]:
    """Return the queries of the median and the 99th percentile of a histogram over 5 minutes."""
    labels = f"{by}, le" if by else "le"
    rates = f"sum by ({labels}) (rate({metric}[5m]))"
    names = (f"{legend} {name}".strip() for name in ("median", "99th percentile"))
    median, high = (
        Query(f"histogram_quantile({q}, {rates})", name)
        for q, name in zip((0.5, 0.99), names, strict=True)
    )
    return median, high


OVERVIEW = Dashboard(
    "overview",
    "Warpboard: is all well?",
    "Whether the platform works, and which of the other dashboards to open if it does not.",
    (
        Section(
            "The platform",
            (
                Stat("SubmissionsOverdue", "Overdue submissions", "short",
                     "Submissions that are open past their deadline."),
                Stat("NoAgentForWaitingJobs", "Jobs without an agent", "short",
                     "Jobs in the queue of a GPU type of which no agent takes jobs.",
                     empty="while every GPU type with jobs has an agent"),
                Stat("PlatformFails", "Platform failures", "percentunit",
                     "Share of the submissions of 15 minutes that failed by the platform's fault."),
                Stat("AnswersFail", "Responses with 5xx", "percentunit",
                     "Share of the HTTP responses of 5 minutes by service.",
                     empty="until a response is a 5xx"),
                Stat("BusDown", "NATS answers", "bool_yes_no", "1 while NATS answers scheduler."),
                Stat("LogDamaged", "Lost events", "short", "Events that the log has lost."),
            ),
        ),
        Section(
            "Hosts and services",
            (
                Stat("ServiceDown", "Services up", "bool_yes_no",
                     "Whether /metrics of each service answers."),
                Stat("ServiceAiling", "Unhealthy parts", "short",
                     "Parts that /healthz of a service reports as unhealthy."),
                Stat("ServiceRestarts", "Restarts", "short", "Starts of a process in 15 minutes."),
                Stat("DiskFilling", "Free disk", "percentunit",
                     "Free share of each file system of a host with node_exporter.",
                     empty="without node_exporter"),
                Stat("BackupOld", "Age of the backup", "s",
                     "Time since the last backup completed.",
                     empty="without a backup that writes its time for node_exporter"),
                Stat("CertificateExpires", "Certificates valid for", "s",
                     "Time until the certificates and credentials of the bus expire.",
                     empty="where no process has a certificate or credentials that expire"),
            ),
        ),
        Section(
            "Alerts and processes",
            (
                Graph("Firing alerts", "short", "The alerts that fire; Watchdog always does.",
                      (Query('ALERTS{alertstate="firing"}',
                             "{{alertname}} {{job}}{{gpu}}{{agent}}"),)),
                Graph("Event loop lag", "s",
                      "99th percentile of how late the event loop of a process ran.",
                      (Query("histogram_quantile(0.99, sum by (job, instance, le) "
                             '(rate({__name__=~"warpboard_.+_loop_lag_seconds_bucket"}[5m])))',
                             "{{job}} {{instance}}"),), alert="LoopLags"),
                Graph("Clock skew", "s", "How far a scheduler's clock is ahead of NATS's.",
                      (Query("warpboard_scheduler_clock_skew_seconds", "{{instance}}"),),
                      alert="ClockSkewed"),
                Graph("Versions", "short", "The version that each service runs.",
                      (Query('count by (job, version) ({__name__=~"warpboard_.+_build_info"})',
                             "{{job}} {{version}}"),)),
                Graph("Memory", "bytes", "Resident memory of each service.",
                      (Query(f'process_resident_memory_bytes{{job=~"{SERVICES}"}}',
                             "{{job}} {{instance}}"),)),
                Graph("Processor", "percentunit", "Processor time of services; 100 % is a core.",
                      (Query(f'rate(process_cpu_seconds_total{{job=~"{SERVICES}"}}[{RATE}])',
                             "{{job}} {{instance}}"),)),
                Graph("Free disk in two days", "bytes",
                      "What each file system has free in two days, at the pace of six hours.",
                      (Query(alert_rules()["DiskFilling"].conditions[1].expr,
                             "{{instance}} {{mountpoint}}"),), alert="DiskFilling", part=1,
                      empty="until node_exporter was measured for six hours"),
            ),
        ),
    ),
)  # fmt: skip

QUEUE = Dashboard(
    "queue",
    "Warpboard: queue and submissions",
    "How long participants wait, and how their submissions end.",
    (
        Section(
            "Now",
            (
                Stat("OldestJobWaits", "Oldest job", "s",
                     "Age of the first job in the queue of each GPU type that is not paused, "
                     "without evaluations."),
                Stat("NoAgentForWaitingJobs", "Jobs without an agent", "short",
                     "Jobs in the queue of a GPU type of which no agent takes jobs.",
                     empty="while every GPU type with jobs has an agent"),
                Stat("SubmissionsOverdue", "Overdue submissions", "short",
                     "Submissions that are open past their deadline."),
                Stat("PlatformFails", "Platform failures", "percentunit",
                     "Share of the submissions of 15 minutes that failed by the platform's fault."),
                Stat("AnswersFail", "Responses with 5xx", "percentunit",
                     "Share of the HTTP responses of 5 minutes by service.",
                     empty="until a response is a 5xx"),
                Stat("AccountsLost", "Account tables lost", "bool_yes_no",
                     "1 while the names of participants are not those that the log knows."),
            ),
        ),
        Section(
            "Submissions",
            (
                Graph("Open and overdue", "short", "Submissions that have not ended.",
                      (Query("max(warpboard_scheduler_open_submissions)", "open"),
                       Query("max(warpboard_scheduler_overdue_submissions)", "overdue")),
                      alert="SubmissionsOverdue"),
                Graph("Ended per minute", "short", "Submissions by their outcome.",
                      (Query("60 * sum by (outcome) "
                             f"(rate(warpboard_ranker_submissions_total[{RATE}]))",
                             "{{outcome}}"),)),
                Graph("Refused per minute", "short",
                      "Submissions that ingest refused because a queue was full.",
                      (Query("60 * sum by (reason) "
                             f"(rate(warpboard_ingest_submissions_refused_total[{RATE}]))",
                             "{{reason}}"),)),
                Graph("Time to accept", "s", "Duration of POST requests at ingest.",
                      quantiles('warpboard_ingest_http_seconds_bucket{method="POST"}')),
                Graph("Responses by status", "reqps", "HTTP responses of ingest and ranker.",
                      (Query("sum by (job, status) "
                             f'(rate({{__name__=~"warpboard_.+_http_total"}}[{RATE}]))',
                             "{{job}} {{status}}"),)),
                Graph("Being accepted", "short",
                      "Submissions that ingest is accepting, and those that wait for that.",
                      (Query("sum(warpboard_ingest_submissions_under_way)", "being accepted"),
                       Query("sum(warpboard_ingest_submissions_waiting)", "waiting"))),
            ),
        ),
        Section(
            "Queue",
            (
                Graph("Waiting and running jobs", "short", "Jobs by GPU type.",
                      (Query("max by (gpu) (warpboard_scheduler_queue_depth_jobs)",
                             "{{gpu}} waiting"),
                       Query("max by (gpu) (warpboard_scheduler_running_jobs)",
                             "{{gpu}} running"))),
                Graph("Oldest wait", "s", "Age of the first job in each queue.",
                      (Query("max by (gpu) (warpboard_scheduler_oldest_queued_age_seconds)",
                             "{{gpu}}"),), alert="OldestJobWaits"),
                Graph("Time in the queue", "s", "From queued to leased, by GPU type.",
                      quantiles("warpboard_scheduler_queue_wait_seconds_bucket", "gpu",
                                "{{gpu}}")),
                Graph("Median duration of stages", "s", "The stages of runs; `all` is the run.",
                      (Query("histogram_quantile(0.5, sum by (stage, le) "
                             "(rate(warpboard_gpu_agent_run_duration_seconds_bucket[5m])))",
                             "{{stage}}"),)),
            ),
        ),
    ),
)  # fmt: skip

AGENTS = Dashboard(
    "agents",
    "Warpboard: agents and GPUs",
    "Which machines take jobs, and whether their measurements can be trusted.",
    (
        Section(
            "Now",
            (
                Stat("AgentSilent", "Last heard", "s", "Time since each agent was last heard."),
                Stat("AgentQuarantined", "In quarantine", "short", "Agents in quarantine."),
                Stat("CanaryDrifts", "Canary time", "percentunit",
                     "Time of an agent's last canary relative to its pool's usual time, "
                     "0 before its first.", part=1),
                Stat("CanaryDrifts", "Bad canaries", "short", "Bad canaries of 30 minutes."),
                Stat("AgentRefused", "Refused requests", "short",
                     "Requests of an agent that were refused in 5 minutes."),
                Stat("GpuReportsXids", "New Xid errors", "short",
                     "Xid errors of 10 minutes in an agent's kernel log."),
            ),
        ),
        Section(
            "Agents",
            (
                Graph("Agents by state", "short", "Agents that are not revoked.",
                      (Query("max by (state) (warpboard_scheduler_agents)", "{{state}}"),)),
                Graph("Agents that take jobs", "short",
                      "Live agents, and whether an operator paused their pool.",
                      (Query("max by (gpu) (warpboard_scheduler_pool_agents)", "{{gpu}} agents"),
                       Query("max by (gpu) (warpboard_scheduler_pool_paused)",
                             "{{gpu}} paused"))),
                Graph("Slots", "short", "Slots of agents that take jobs.",
                      (Query("max by (gpu, state) (warpboard_scheduler_pool_slots)",
                             "{{gpu}} {{state}}"),)),
                Graph("Time since last heard", "s", "By agent.",
                      (Query("max by (agent) (warpboard_scheduler_agent_last_seen_seconds)",
                             "{{agent}}"),), alert="AgentSilent"),
                Graph("Runs per minute", "short", "Runs that ended, by verdict.",
                      (Query("60 * sum by (verdict) "
                             f"(rate(warpboard_gpu_agent_runs_total[{RATE}]))", "{{verdict}}"),)),
                Graph("Failed runs", "short", "Runs of an hour that failed, by code.",
                      (Query("sum by (code) (increase(warpboard_gpu_agent_run_failures_total[1h]))",
                             "{{code}}"),)),
                Graph("Current runs", "short", "Runs of each agent, and its quarantine.",
                      (Query("warpboard_gpu_agent_current_runs", "{{instance}} runs"),
                       Query("warpboard_gpu_agent_quarantined", "{{instance}} in quarantine"))),
                Graph("Refused requests of agents", "short", "Requests of 5 minutes.",
                      (Query("max by (agent) "
                             "(increase(warpboard_scheduler_agent_refusals_total[5m]))",
                             "{{agent}}"),), alert="AgentRefused"),
                Graph("Stored by agents", "Bps", "Bytes of blobs that agents sent.",
                      (Query("max by (agent) "
                             "(rate(warpboard_scheduler_agent_upload_bytes_total[5m]))",
                             "{{agent}}"),)),
            ),
        ),
        Section(
            "Measurements",
            (
                Graph("Canary time", "percentunit",
                      "Time of the last canary relative to the pool's usual time.",
                      (Query("max by (agent) (warpboard_scheduler_canary_time_ratio)",
                             "{{agent}}"),), alert="CanaryDrifts", part=1),
                Graph("Canaries", "short", "Canaries of an hour.",
                      (Query("sum by (outcome) (increase(warpboard_scheduler_canaries_total[1h]))",
                             "{{outcome}}"),)),
                Graph("GPU use", "percentunit", "Read between runs only.",
                      (Query("warpboard_gpu_agent_gpu_use_ratio", "{{instance}} {{gpu}}"),),
                      empty=NO_GPU),
                Graph("GPU memory", "bytes", "Used memory, read between runs only.",
                      (Query("warpboard_gpu_agent_gpu_memory_used_bytes",
                             "{{instance}} {{gpu}}"),), empty=NO_GPU),
                Graph("GPU temperature", "celsius", "Read between runs only.",
                      (Query("warpboard_gpu_agent_gpu_temperature_celsius",
                             "{{instance}} {{gpu}}"),), empty=NO_GPU),
                Graph("GPU clock", "hertz", "Read between runs only.",
                      (Query("warpboard_gpu_agent_gpu_clock_hertz", "{{instance}} {{gpu}}"),),
                      empty=NO_GPU),
                Graph("Xid errors", "short",
                      "Xid errors in the kernel log, -1 if it cannot be read.",
                      (Query("warpboard_gpu_agent_gpu_xids", "{{instance}}"),)),
            ),
        ),
        Section(
            "Agents on demand",
            (
                Stat("LaunchesFail", "Failed launches", "short",
                     "Agents of 15 minutes that never came or left their job waiting."),
                Stat("LauncherSpent", "Cost above the limit", "short",
                     "Today's cost of a launcher's agents less their limit; at 0 it stops."),
                Graph("Started agents", "short", "Agents that a launcher was asked for.",
                      (Query("max by (launcher) (warpboard_scheduler_launcher_agents)",
                             "{{launcher}} agents"),
                       Query("max by (launcher) (warpboard_scheduler_launcher_failures)",
                             "{{launcher}} failures"))),
                Graph("Cost today", "short", "Cost of a launcher's agents, and the limit.",
                      (Query("max by (launcher) (warpboard_scheduler_launcher_cost_today)",
                             "{{launcher}} cost"),
                       Query("max by (launcher) (warpboard_scheduler_launcher_cost_max)",
                             "{{launcher}} limit"))),
            ),
        ),
    ),
)  # fmt: skip

BUS = Dashboard(
    "bus",
    "Warpboard: bus and read models",
    "Whether the log is whole and writable, and whether its readers keep up.",
    (
        Section(
            "The log",
            (
                Stat("BusDown", "NATS answers", "bool_yes_no", "1 while NATS answers scheduler."),
                Stat("LogDamaged", "Lost events", "short", "Events that the log has lost."),
                Stat("LogGap", "Missed sequences", "short",
                     "Sequences that a reader missed in 15 minutes."),
                Stat("LogNotStored", "Cannot store", "bool_yes_no",
                     "1 while NATS stores no event of a service."),
                Stat("ArchiveDamaged", "Damaged in the archive", "short",
                     "Events of the archive that are not what was archived."),
                Stat("ScrubLate", "Last comparison", "s",
                     "Time since log and archive were compared completely."),
            ),
        ),
        Section(
            "Readers",
            (
                Stat("AppendsSlow", "Appends, 99th percentile", "s",
                     "Duration of successful appends by service."),
                Stat("PumpSilent", "Silence of the server", "s",
                     "How long a log reader has received nothing, not even a heartbeat."),
                Stat("ConsumerSilent", "Undelivered events", "short",
                     "Events that wait for a durable consumer that acknowledged none in 5 minutes.",
                     empty="while every consumer acknowledges events"),
                Stat("DeadLetters", "Dead letters", "short", "Dead letters not redriven."),
                Stat("ProjectionParked", "Read models stopped", "bool_yes_no",
                     "1 while the read models stop before an event that they cannot fold."),
                Stat("ProjectionLags", "Read models behind", "short",
                     "Events that the read models have not folded."),
                Stat("ProjectionLags", "Archive behind", "short",
                     "Events that the archive does not have yet.", part=1),
                Stat("ProjectionLags", "Scheduler behind", "short",
                     "Events that scheduler has not folded.", part=2),
            ),
        ),
        Section(
            "Log over time",
            (
                Graph("Events", "short", "The last sequence of the log.",
                      (Query("max(warpboard_scheduler_log_events)", "events"),)),
                Graph("Log on disk", "bytes", "The size of the stream EVENTS.",
                      (Query("max(warpboard_scheduler_log_bytes)", "log"),)),
                Graph("Appends", "s", "Duration of successful appends; a batch counts as one.",
                      quantiles('{__name__=~"warpboard_.+_append_seconds_bucket"}', "job",
                                "{{job}}"), alert="AppendsSlow"),
                Graph("Conflicts", "ops", "Appends that another writer preceded.",
                      (Query("sum by (job) "
                             f'(rate({{__name__=~"warpboard_.+_append_conflicts_total"}}[{RATE}]))',
                             "{{job}}"),)),
                Graph("Appends stored together", "ops", "Appends that shared a batch.",
                      (Query("sum by (job) "
                             f'(rate({{__name__=~"warpboard_.+_appends_grouped_total"}}[{RATE}]))',
                             "{{job}}"),)),
                Graph("Reconnections and restarted readers", "short", "Within an hour, by service.",
                      (Query("sum by (job) "
                             '(increase({__name__=~"warpboard_.+_reconnects_total"}[1h]))',
                             "{{job}} reconnections"),
                       Query("sum by (job) "
                             '(increase({__name__=~"warpboard_.+_pump_restarts_total"}[1h]))',
                             "{{job}} restarted readers"))),
            ),
        ),
        Section(
            "Consumers and read models over time",
            (
                Graph("Durable consumers", "short", "Events by consumer.",
                      (Query("max by (consumer) (warpboard_scheduler_consumer_pending_events)",
                             "{{consumer}} not delivered"),
                       Query("max by (consumer) "
                             "(warpboard_scheduler_consumer_unacknowledged_events)",
                             "{{consumer}} in progress"),
                       Query("max by (consumer) (warpboard_scheduler_consumer_redelivered_events)",
                             "{{consumer}} delivered again"))),
                Graph("Silence of the server", "s",
                      "How long a log reader has received nothing.",
                      (Query('max by (job) ({__name__=~"warpboard_.+_pump_silent_seconds"})',
                             "{{job}}"),), alert="PumpSilent"),
                Graph("Dead letters", "short", "All dead letters, and those not redriven.",
                      (Query("max(warpboard_scheduler_dead_letters_total)", "all"),
                       Query("max(warpboard_scheduler_open_dead_letters)", "open")),
                      alert="DeadLetters"),
                Graph("Events behind", "short", "What readers of the whole log have not folded.",
                      (Query("max(warpboard_ranker_projection_lag_events)", "read models"),
                       Query("max(warpboard_ranker_archive_lag_events)", "archive"),
                       Query("max(warpboard_scheduler_lag_events)", "scheduler")),
                      alert="ProjectionLags"),
                Graph("Age when folded", "s", "Age of the event that the read models fold.",
                      (Query("max(warpboard_ranker_projection_lag_seconds)", "age"),)),
                Graph("Archive", "short", "The last archived event, and the number of seals.",
                      (Query("max(warpboard_ranker_archived_seq)", "archived"),
                       Query("max(warpboard_ranker_seals_total)", "seals"))),
                Graph("Webhooks", "short", "Delivery attempts of an hour, and pending deliveries.",
                      (Query("sum by (outcome) "
                             "(increase(warpboard_ranker_webhook_tries_total[1h]))",
                             "{{outcome}}"),
                       Query("max(warpboard_ranker_webhook_deliveries)", "pending"))),
            ),
        ),
    ),
)  # fmt: skip

DISCORD = Dashboard(
    "discord",
    "Warpboard: Discord",
    "Whether the bot answers, and whether its posts arrive. Empty without a bot.",
    (
        Section(
            "Now",
            (
                Stat("DiscordDisconnected", "Bot connected", "bool_yes_no",
                     "1 while the bot is connected to Discord."),
                Stat("DiscordAnswersSlow", "First answer, 99th percentile", "s",
                     "Time from an interaction to the first answer; Discord's limit is 3 s."),
                Stat("DiscordAnswersSlow", "Late answers", "short",
                     "Answers of 10 minutes that Discord no longer accepted.", part=1,
                     empty="until an answer is late"),
                Stat("DiscordCommandsBreak", "Failed commands", "short",
                     "Interactions of 15 minutes that failed by the platform's fault.",
                     empty="until a command fails"),
                Stat("DiscordPostsWait", "Age of the current post", "s",
                     "Age of the event that is being posted, 0 without one."),
                Stat("DiscordRefusesRequests", "Refused requests", "short",
                     "Requests of 10 minutes that Discord refused; 10,000 lead to a ban.",
                     empty="until Discord refuses a request"),
            ),
        ),
        Section(
            "Over time",
            (
                Graph("Connection", "short", "Whether the bot is connected; sessions of an hour.",
                      (Query("max(warpboard_discord_edge_gateway_up)", "connected"),
                       Query("sum by (how) "
                             "(increase(warpboard_discord_edge_gateway_sessions_total[1h]))",
                             "{{how}}"))),
                Graph("Commands and buttons per minute", "short", "Interactions by kind.",
                      (Query("60 * sum by (command) "
                             f"(rate(warpboard_discord_edge_interactions_total[{RATE}]))",
                             "{{command}}"),)),
                Graph("Interactions without a result", "short", "Of 15 minutes, by outcome.",
                      (Query("sum by (outcome) "
                             "(increase(warpboard_discord_edge_interactions_failed_total[15m]))",
                             "{{outcome}}"),), alert="DiscordCommandsBreak"),
                Graph("Time to the first answer", "s", "Discord's limit is 3 s.",
                      quantiles("warpboard_discord_edge_acknowledgement_seconds_bucket"),
                      alert="DiscordAnswersSlow"),
                Graph("Responses of Discord per minute", "short", "By status.",
                      (Query("60 * sum by (status) "
                             f"(rate(warpboard_discord_edge_rest_answers_total[{RATE}]))",
                             "{{status}}"),)),
                Graph("Followed submissions", "short",
                      "Submissions reported in threads or direct messages.",
                      (Query("max(warpboard_discord_edge_followed_submissions)", "followed"),)),
                Graph("Public posts", "short", "Events that wait, and events handled per minute.",
                      (Query("max(warpboard_scheduler_consumer_pending_events"
                             '{consumer="discord-edge-news"})', "waiting"),
                       Query(f"60 * sum(rate(warpboard_discord_edge_posts_told_total[{RATE}]))",
                             "handled per minute"))),
                Graph("Age of the current post", "s", "0 without one.",
                      (Query("max(warpboard_discord_edge_post_waiting_seconds)", "age"),),
                      alert="DiscordPostsWait"),
            ),
        ),
    ),
)  # fmt: skip

EVALUATIONS = Dashboard(
    "evaluations",
    "Warpboard: evaluations",
    "Whether evaluations make progress, and how much device time they use.",
    (
        Section(
            "Now",
            (
                Stat("EvaluationsWait", "Oldest evaluation", "s",
                     "Age of the oldest evaluation of which a part waits, by GPU type that is not "
                     "paused."),
                Stat("EvaluationItemsFail", "Items without a verdict", "short",
                     "Items of 15 minutes that failed by the platform's fault, if they are more "
                     "than a hundredth of all.", empty="while at most a hundredth fails"),
            ),
        ),
        Section(
            "Over time",
            (
                Graph("Oldest evaluation", "s", "By GPU type.",
                      (Query("max by (gpu) (warpboard_scheduler_oldest_evaluation_age_seconds)",
                             "{{gpu}}"),), alert="EvaluationsWait"),
                Graph("Items per minute", "short", "Items of evaluations that are over.",
                      (Query("60 * sum by (outcome) "
                             "(rate(warpboard_scheduler_evaluation_items_total[5m]))",
                             "{{outcome}}"),)),
                Graph("Items on agents per minute", "short", "Items that ended, by verdict.",
                      (Query("60 * sum by (verdict) "
                             f"(rate(warpboard_gpu_agent_items_total[{RATE}]))",
                             "{{verdict}}"),)),
                Graph("Devices in use", "short",
                      "Mean number of devices that finished evaluations held.",
                      (Query("sum(rate(warpboard_scheduler_evaluation_device_seconds_total[15m]))",
                             "devices"),)),
            ),
        ),
    ),
)  # fmt: skip

DASHBOARDS = (OVERVIEW, QUEUE, AGENTS, BUS, DISCORD, EVALUATIONS)
