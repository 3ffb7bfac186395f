// Keeps a part of a page up to date while the page is visible. Without scripts, the page reloads.
"use strict";

const part = document.querySelector("[data-refresh-s]");
const EVERY_MS = 1000 * Number(part.dataset.refreshS);

async function refresh() {
  // A reader who uses the keyboard inside the part, or selects text, keeps the place.
  const isInUse = part.contains(document.activeElement) || !getSelection().isCollapsed;
  if (!document.hidden && !isInUse) {
    try {
      const response = await fetch(location.href);
      if (response.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        part.replaceChildren(...page.getElementById(part.id).childNodes);
        document.dispatchEvent(new Event("updated"));
        // What is over does not change, and may have a form.
        if (part.querySelector("[data-is-over]")) return;
      }
    } catch {
      // The platform does not respond at the moment.
    }
  }
  setTimeout(refresh, EVERY_MS);
}

setTimeout(refresh, EVERY_MS);
