"""Every command: its words, what defines it, and its line in the help of its group.

`--help` and completion read this table alone; a module is imported when its command is invoked.
"""

# The heading in the help of `warpboard`, and what is listed below it.
SECTIONS = {
    "Start here": ("login", "logout", "init", "run", "duel", "submit"),
    "Look at and manage": (
        "submission",
        "leaderboard",
        "problem",
        "auth",
        "webhook",
        "notification",
    ),
    "A platform on this machine": ("up", "down", "status", "demo", "server"),
    "Operators": ("agent", "admin"),
    "Programs and shells": ("mcp", "completion"),
}

# The words of a group, and its help, whose first line is the summary.
GROUPS = {
    "submission": "List, show, follow, compare, cancel and appeal submissions.",
    "leaderboard": "Show leaderboards and records; join and edit leaderboards.",
    "problem": "List, show, write, check and publish problems.",
    "problem baseline": "Show the platform's own runs of a problem; run them again.",
    "problem rejudge": "Rejudge submissions under another version, with a preview.",
    "auth": "Show your account; create and revoke tokens.",
    "auth token": "Create, list and revoke your tokens.",
    "webhook": "Notify addresses of yours of events.",
    "notification": "Choose how Discord notifies you.",
    "server": "Replay, audit, back up, restore and repair its log.",
    "agent": "List agents, restrict or release them, and test this machine.",
    "admin": "Decide as an operator; each decision is an event.\n\n"
    "It holds your name and your reason. The token is that of the platform's --folder, or "
    "WARPBOARD_OPERATOR_TOKEN.",
    "admin submission": "Hold, disqualify, restore, compare and cancel submissions.",
    "admin participant": "Create, show, rename, ban and unban participants.",
    "admin role": "Grant and revoke roles.",
    "admin token": "Create and revoke participants' tokens.",
    "admin identity": "Link and unlink participants' identities.",
    "admin leaderboard": "Edit and archive a problem's leaderboards.",
    "admin invite": "Create, list and revoke invites to closed leaderboards.",
    "admin quota": "Limit how many submissions participants may send.",
    "admin pool": "Pause and resume a GPU type; choose its canary.",
    "admin intake": "Pause and resume the intake of submissions.",
    "admin projection": "Skip an event that cannot be folded.",
    "admin deadletter": "Look at events that consumers gave up, and redrive them.",
    "admin account": "Start with new names after the account tables were lost.",
}

# The words of a command; the module of this package and the variable there that define it, and its
# summary.
COMMANDS = {
    "submit": ("submissions.submit", "Submit FILE and wait for its verdict."),
    "submission list": ("submissions.list_submissions", "List your newest submissions."),
    "submission show": (
        "submissions.show_submission",
        "Show submission NUMBER: verdict, cases, history and output.",
    ),
    "submission status": (
        "submissions.show_status",
        "Show where submission NUMBER is, in one line.",
    ),
    "submission logs": ("results.show_logs", "Show the events and output of submission NUMBER."),
    "submission diff": ("results.diff", "Compare submissions A and B: sources, and times by case."),
    "submission trace": (
        "submissions.trace",
        "Show every event of submission NUMBER, its jobs and runs.",
    ),
    "submission export": ("results.export", "Export all your results, newest first."),
    "submission queue": ("status.queue", "Show who waits for each GPU type, how long, and why."),
    "submission quota": ("status.quota", "Show what is left of your quotas."),
    "submission cancel": ("results.cancel", "Cancel submission NUMBER and refund its quota."),
    "submission delete": ("results.delete", "Take submission NUMBER off its leaderboard for good."),
    "submission appeal": ("results.appeal", "Appeal a decision about your submission NUMBER."),
    "init": ("local_runs.init", "Start on a PROBLEM: create a folder with a file to improve."),
    "run": ("local_runs.run_file", "Run FILE here, in the agents' own harness, without a server."),
    "duel": ("local_runs.duel", "Time two files in alternation here: which is faster?"),
    "leaderboard list": (
        "leaderboards.list_leaderboards",
        "List every problem with its GPU types and deadline.",
    ),
    "leaderboard show": (
        "leaderboards.show_leaderboards",
        "Show the leaderboards of a PROBLEM, best first.",
    ),
    "leaderboard history": ("leaderboards.history", "Show your ranked submissions."),
    "leaderboard records": ("leaderboards.records", "Show the records of a PROBLEM on a GPU type."),
    "leaderboard milestones": ("leaderboards.milestones", "List the milestones that you reached."),
    "leaderboard join": ("leaderboards.join", "Accept the invite CODE to closed leaderboards."),
    "leaderboard settings": (
        "leaderboard_settings.show_settings",
        "Show the settings of a PROBLEM's leaderboards.",
    ),
    "leaderboard edit": (
        "leaderboard_settings.edit_leaderboards",
        "Change the settings of your leaderboards.",
    ),
    "admin leaderboard edit": (
        "leaderboard_settings.edit_any_leaderboards",
        "Change the settings of a PROBLEM's leaderboards.",
    ),
    "problem list": ("problems.list_problems", "List every problem in its newest version."),
    "problem show": (
        "problems.show_problem",
        "Show a PROBLEM: what to compute, how it is checked and ranked.",
    ),
    "problem consent": ("problems.consent", "Show the text that a PROBLEM asks you to accept."),
    "problem eval-code": (
        "authoring.eval_code",
        "Show which harness runs submissions to a problem.",
    ),
    "problem new": ("authoring.new", "Write a problem draft, small and complete, to start from."),
    "problem check": (
        "authoring.check",
        "Inspect each problem's own code and run its solutions here.",
    ),
    "problem publish": ("authoring.publish", "Publish each PATH as its problem's newest version."),
    "problem import-kernelbench": (
        "authoring.import_kernelbench",
        "Publish a level of a KernelBench checkout.",
    ),
    "problem baseline list": (
        "reruns.list_baselines",
        "List a PROBLEM's baselines and their state.",
    ),
    "problem baseline run": ("reruns.run_baselines", "Run the baselines of PROBLEMS again."),
    "problem rejudge start": ("reruns.start_rejudge", "Rejudge submissions to a PROBLEM."),
    "problem rejudge list": ("reruns.list_rejudges", "List the rejudges, newest first."),
    "problem rejudge show": ("reruns.show_rejudge", "Show rejudge ID and what it would change."),
    "problem rejudge apply": (
        "reruns.apply_rejudge",
        "Apply rejudge ID: its results count from then on.",
    ),
    "problem rejudge discard": (
        "reruns.discard_rejudge",
        "Discard rejudge ID: its results never count.",
    ),
    "login": ("login.login", "Log in, and store the token."),
    "logout": ("login.logout", "Revoke the stored token of a platform, and forget it."),
    "auth status": ("accounts.show_account", "Show the current account and its permissions."),
    "auth token list": ("accounts.list_tokens", "List your tokens, and when each was last used."),
    "auth token create": (
        "accounts.create_token",
        "Issue a token called NAME; it is shown only once.",
    ),
    "auth token revoke": (
        "accounts.revoke_token",
        "Revoke your token NUMBER; it stops working within a second.",
    ),
    "auth unlink": ("accounts.unlink", "Remove an IDENTITY from your account."),
    "auth appeal": ("accounts.appeal_ban", "Appeal your ban."),
    "notification list": ("accounts.list_notifications", "List what Discord notifies you of."),
    "notification set": (
        "accounts.set_notification",
        "Choose HOW Discord notifies you of an EVENT.",
    ),
    "webhook create": ("webhooks.create", "Send events to URL from now on."),
    "webhook list": (
        "webhooks.list_webhooks",
        "List your webhooks; one that failed for a day is off.",
    ),
    "webhook show": ("webhooks.show", "Show your webhook ID, and why it is off, if it is."),
    "webhook delete": ("webhooks.delete", "Delete your webhook ID and its deliveries."),
    "webhook test": ("webhooks.send_test", "Send a test to your webhook ID."),
    "webhook deliveries": ("webhooks.list_deliveries", "List what was sent to your webhook ID."),
    "up": ("platform.up", "Start the platform on this machine and run it until Ctrl-C."),
    "down": ("platform.down", "Stop the platform that runs on this machine."),
    "status": ("status.status", "Show processes, agents, queues and what is held back."),
    "demo": ("demo.demo", "Demonstrate the platform: start, submit, rank, replay, stop."),
    "mcp": ("platform.mcp", "Serve the Model Context Protocol on stdin and stdout."),
    "completion": ("platform.completion", "Print the completion script of a SHELL."),
    "server replay": ("maintenance.replay", "Rebuild a projection from event 1 and compare."),
    "server audit": (
        "maintenance.audit",
        "Derive a leaderboard again, and check the log behind it.",
    ),
    "server scrub": ("maintenance.scrub", "Compare the log with its archive, event by event."),
    "server backup": (
        "maintenance.backup",
        "Back up the log into FILE, with blobs and accounts beside it.",
    ),
    "server restore": (
        "maintenance.restore",
        "Restore a backup FILE into a folder whose log is empty.",
    ),
    "server repair": ("maintenance.repair", "Restore events that a log lacks from its archive."),
    "server gc": ("maintenance.gc", "List or remove blobs that no event names."),
    "agent list": (
        "status.list_agents",
        "List the agents, their states, and why they are held back.",
    ),
    "agent doctor": ("operations.doctor", "Test every wall, launcher and toolchain here."),
    "agent cordon": ("operations.cordon_agent", "Give an agent only canaries."),
    "agent drain": (
        "operations.drain_agent",
        "Give an agent no new jobs; its current run may finish.",
    ),
    "agent release": ("operations.release_agent", "End cordon, drain and quarantine of an agent."),
    "agent revoke": (
        "operations.revoke_agent",
        "Revoke an agent for ever: it may neither run jobs nor sign.",
    ),
    "agent enroll": ("operations.enroll_agent", "Accept an agent's signatures."),
    "admin pool pause": ("operations.pause_pool", "Start no jobs of a GPU type."),
    "admin pool resume": ("operations.resume_pool", "Start jobs of a GPU type again."),
    "admin pool canary": (
        "operations.set_canary",
        "Run a passed submission regularly on every agent.",
    ),
    "admin pool no-canary": ("operations.remove_canary", "Stop running a canary on a GPU type."),
    "admin intake pause": (
        "operations.pause_intake",
        "Accept no submissions; participants are told why.",
    ),
    "admin intake resume": ("operations.resume_intake", "Accept submissions again."),
    "admin projection skip": ("operations.skip_event", "Let projection NAME skip the event SEQ."),
    "admin deadletter list": (
        "operations.list_dead_letters",
        "List every event that a consumer gave up.",
    ),
    "admin deadletter show": (
        "operations.show_dead_letter",
        "Show the event SEQ that a CONSUMER gave up, and why.",
    ),
    "admin deadletter redrive": (
        "operations.redrive_dead_letter",
        "Deliver event SEQ again to the CONSUMER that gave it up.",
    ),
    "admin account adopt": ("operations.adopt_accounts", "Allow new names for lost accounts."),
    "admin moderation": ("admin.list_rulings", "List held submissions and open appeals."),
    "admin submission hold": (
        "admin.hold_submission",
        "Keep submission NUMBER off its leaderboard until it is reviewed.",
    ),
    "admin submission release": (
        "admin.release_submission",
        "Release a held submission, so that it is ranked.",
    ),
    "admin submission disqualify": ("admin.disqualify_submission", "Disqualify submission NUMBER."),
    "admin submission restore": (
        "admin.restore_submission",
        "Restore a disqualified submission, so that it is ranked again.",
    ),
    "admin submission cancel": (
        "admin.cancel_submission",
        "Cancel anybody's submission NUMBER and refund its quota.",
    ),
    "admin submission duel": (
        "admin.duel",
        "Time submissions FIRST and SECOND of one leaderboard in alternation.",
    ),
    "admin submission decide-appeal": (
        "admin.decide_appeal",
        "Decide the appeal of submission NUMBER; accepting it lifts the ruling.",
    ),
    "admin participant create": (
        "admin.create_participant",
        "Create a participant with this name.",
    ),
    "admin participant show": (
        "admin.show_participant",
        "Show a PARTICIPANT: roles, bans, identities and tokens.",
    ),
    "admin participant rename": ("admin.rename_participant", "Rename a PARTICIPANT."),
    "admin participant ban": (
        "admin.ban",
        "Ban a participant, and take them off every leaderboard.",
    ),
    "admin participant unban": ("admin.unban", "Lift a participant's ban."),
    "admin participant decide-appeal": (
        "admin.decide_ban_appeal",
        "Decide the appeal of a banned PARTICIPANT; accepting it ends the ban.",
    ),
    "admin role grant": ("admin.grant_role", "Give a participant a role."),
    "admin role revoke": ("admin.revoke_role", "Take a role from a participant."),
    "admin token create": ("admin.create_token", "Issue a token for a PARTICIPANT."),
    "admin token revoke": ("admin.revoke_token", "Revoke anybody's token NUMBER."),
    "admin identity link": (
        "admin.link_identity",
        "Link SUBJECT at a provider to this participant.",
    ),
    "admin identity unlink": ("admin.unlink_identity", "Unlink an IDENTITY from a participant."),
    "admin leaderboard archive": (
        "admin.archive_leaderboards",
        "Archive a problem's leaderboards.",
    ),
    "admin invite create": ("admin.create_invites", "Issue invites to closed leaderboards."),
    "admin invite list": ("admin.list_invites", "List the invites to a problem's leaderboards."),
    "admin invite revoke": ("admin.revoke_invite", "Revoke an invite."),
    "admin quota set": (
        "admin.set_quota",
        "Limit the submissions of a participant, or of everybody.",
    ),
}
