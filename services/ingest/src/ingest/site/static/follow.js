// Keeps the page of a submission up to date until it is over. Without scripts, the page reloads.
"use strict";

const REFRESH_MS_MIN = 1000;
const EVENTS = [
  "SubmissionCancelRequested", "SubmissionRanked", "SubmissionNotRanked", "SubmissionHeld",
  "SubmissionCancelled", "SubmissionEnded", "JobQueued", "JobAssigned", "JobExpired", "JobRequeued",
  "JobGivenUp", "JobCancelled", "RunStarted", "StageCompleted", "RunCompleted", "RunFailed",
  "RunCancelled", "progress", "queue", "end",
];

async function fetchPage(path) {
  const response = await fetch(path);
  return response.ok ? new DOMParser().parseFromString(await response.text(), "text/html") : null;
}

// Calls `show` with the page of a submission after its events, until the submission is over.
function followSubmission(path, eventsPath, show) {
  const events = new EventSource(eventsPath);
  let timer = null;

  async function refresh() {
    timer = null;
    const page = await fetchPage(path);
    if (page === null || events.readyState === EventSource.CLOSED) return;
    // `show` may take the elements out of the page.
    if (page.getElementById("live") === null) events.close();
    show(page);
  }

  for (const name of EVENTS) {
    events.addEventListener(name, () => {
      timer ??= setTimeout(refresh, REFRESH_MS_MIN);
    });
  }
  return events;
}

function showWholePage(page) {
  // Until the end, only the state changes: the reader keeps the place and what is open.
  const id = page.getElementById("live") === null ? "submission" : "live";
  document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
  document.title = page.title;
}

const live = document.getElementById("live");
if (live !== null) followSubmission(location.href, live.dataset.events, showWholePage);
