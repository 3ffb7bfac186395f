// Keeps the page of a submission up to date until it is over. Without scripts, the page reloads.
"use strict";

const REFRESH_MS_MIN = 1000;
const EVENTS = [
  "SubmissionCancelRequested", "SubmissionRanked", "SubmissionNotRanked", "SubmissionHeld",
  "SubmissionCancelled", "SubmissionEnded", "JobQueued", "JobAssigned", "JobExpired", "JobRequeued",
  "JobGivenUp", "JobCancelled", "RunStarted", "StageCompleted", "RunCompleted", "RunFailed",
  "RunCancelled", "progress", "queue", "end",
];

let timer = null;

async function refresh() {
  timer = null;
  const response = await fetch(location.href);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const isOver = page.getElementById("live") === null;
  // Until the end, only the state changes: the reader keeps the place and what is open.
  const id = isOver ? "submission" : "live";
  document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
  document.title = page.title;
  if (isOver) events.close();
}

const events = new EventSource(document.getElementById("live").dataset.events);
for (const name of EVENTS) {
  events.addEventListener(name, () => {
    timer ??= setTimeout(refresh, REFRESH_MS_MIN);
  });
}
