// Keeps the page of a submission up to date until it is over. Without scripts, the page reloads.
"use strict";

const REFRESH_MS_MIN = 1000;
// Without a stream of events, the page is loaded again as often as it would be without scripts.
const POLL_MS = 5000;
const EVENTS = [
  "SubmissionCancelRequested", "SubmissionRanked", "SubmissionNotRanked", "SubmissionHeld",
  "SubmissionCancelled", "SubmissionEnded", "JobAssigned", "JobExpired", "JobRequeued",
  "JobGivenUp", "JobCancelled", "RunStarted", "RunCompleted", "RunFailed",
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
  let isOver = false;

  function refreshIn(delayMs) {
    timer ??= setTimeout(refresh, delayMs);
  }

  async function refresh() {
    timer = null;
    const page = await fetchPage(path).catch(() => null);
    if (isOver) return;
    if (page !== null) {
      // `show` may take the elements out of the page.
      isOver = page.getElementById("live") === null;
      if (isOver) events.close();
      show(page);
    }
    if (!isOver && events.readyState === EventSource.CLOSED) refreshIn(POLL_MS);
  }

  for (const name of EVENTS) events.addEventListener(name, () => refreshIn(REFRESH_MS_MIN));
  // The browser connects again by itself, unless the server refused the stream.
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) refreshIn(POLL_MS);
  });
  return {
    close() {
      isOver = true;
      events.close();
    },
  };
}

function showWholePage(page) {
  document.title = page.title;
  const next = page.getElementById("live");
  if (next !== null) {
    update(document.getElementById("live"), next);
    return;
  }
  const content = page.getElementById("submission");
  document.getElementById("submission").replaceChildren(...content.childNodes);
  document.dispatchEvent(new Event("page-replaced"));
}

// Until the end, only the state changes: what is equal stays, with the focus and what is selected.
function update(current, next) {
  const [before, after] = [[...current.children], [...next.children]];
  if (before.length !== after.length) {
    current.replaceChildren(...after);
    return;
  }
  before.forEach((child, index) => {
    if (!child.isEqualNode(after[index])) {
      // A screen reader announces a new text only in an element that stays.
      if (child.getAttribute("role") === "status") child.replaceChildren(...after[index].childNodes);
      else child.replaceWith(after[index]);
    }
  });
}

const live = document.getElementById("live");
if (live !== null) followSubmission(location.href, live.dataset.events, showWholePage);
