// Shows instants in the reader's time zone, and counts down to deadlines. Without scripts: UTC.
"use strict";

const MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400;
const format = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});

function showLocalTimes() {
  for (const time of document.querySelectorAll("time.instant:not([title])")) {
    time.title = time.textContent;
    time.textContent = format.format(new Date(time.dateTime));
  }
}

function timeLeft(until) {
  const leftS = Math.floor((until - Date.now()) / 1000);
  if (leftS <= 0) return "now";
  const units = [[DAY_S, "d"], [HOUR_S, "h"], [MINUTE_S, "min"], [1, "s"]];
  const parts = units.map(([sizeS, unit], index) => {
    const wholeS = index === 0 ? leftS : leftS % units[index - 1][0];
    return [Math.floor(wholeS / sizeS), unit];
  });
  // Seconds are shown on the last day only.
  const shown = leftS < DAY_S ? parts : parts.slice(0, 3);
  const first = shown.findIndex(([count]) => count > 0);
  return "in " + shown.slice(first).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

function countDown() {
  for (const left of document.querySelectorAll("[data-until]")) {
    left.textContent = timeLeft(new Date(left.dataset.until));
  }
}

showLocalTimes();
countDown();
setInterval(countDown, 1000);
document.addEventListener("updated", showLocalTimes);
