// Keeps the page of a submission up to date until it is over. Without scripts, the page reloads.
"use strict";

const REFRESH_MS_MIN = 1000;
// Without a stream of events, the page is loaded again as often as it would be without scripts.
const POLL_MS = 5000;
const EVENTS = [
  "SubmissionCancelRequested", "SubmissionRanked", "SubmissionNotRanked", "SubmissionHeld",
  "SubmissionCancelled", "SubmissionEnded", "JobQueued", "JobAssigned", "JobExpired", "JobRequeued",
  "JobGivenUp", "JobCancelled", "RunStarted", "StageCompleted", "RunCompleted", "RunFailed",
  "RunCancelled", "progress", "queue", "end",
];

let timer = null;

function refreshIn(delayMs) {
  timer ??= setTimeout(refresh, delayMs);
}

async function refresh() {
  timer = null;
  const response = await fetch(location.href).catch(() => null);
  if (response?.ok) {
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    document.title = page.title;
    if (page.getElementById("live") === null) {
      events.close();
      const content = page.getElementById("submission");
      document.getElementById("submission").replaceChildren(...content.childNodes);
      document.dispatchEvent(new Event("page-replaced"));
      return;
    }
    update(document.getElementById("live"), page.getElementById("live"));
  }
  if (events.readyState === EventSource.CLOSED) refreshIn(POLL_MS);
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

const events = new EventSource(document.getElementById("live").dataset.events);
for (const name of EVENTS) events.addEventListener(name, () => refreshIn(REFRESH_MS_MIN));
// The browser connects again by itself, unless the server refused the stream.
events.addEventListener("error", () => {
  if (events.readyState === EventSource.CLOSED) refreshIn(POLL_MS);
});
