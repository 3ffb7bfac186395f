// The editor: highlights code, keeps a draft, loads files, and shows results beside the code.
// Without scripts, its form is an ordinary one.
"use strict";

const DRAFT_DELAY_MS = 500;
const PARTS = ["result", "state", "why", "cases", "log", "files"];

const form = document.getElementById("editor");
const messages = document.getElementById("messages");
const fileName = document.getElementById("filename");
const fileField = document.getElementById("file");
const submitButton = document.getElementById("submit");
const draftKey = `warpboard-draft:${form.dataset.problem}`;
let draftTimer = null;

// The code editor is CodeMirror, or the text field itself where it was not built.

function openTextField(field, { onChange, onSubmit }) {
  field.addEventListener("input", onChange);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onSubmit();
  });
  return {
    get value() { return field.value; },
    load(code) {
      field.value = code;
      onChange();
    },
    setLanguage() {},
    mark() {},
    focus() { field.focus(); },
    save() {},
  };
}

function saveDraftSoon() {
  clearTimeout(draftTimer);
  draftTimer = setTimeout(saveDraft, DRAFT_DELAY_MS);
}

const isPlain = window.openCodeEditor === undefined;
const codeEditor = (window.openCodeEditor ?? openTextField)(document.getElementById("code"), {
  nonce: document.getElementById("code-editor")?.nonce,
  describedBy: "code-help",
  onChange: saveDraftSoon,
  onSubmit: () => form.requestSubmit(submitButton),
});
let starter = codeEditor.value;
let submittedCode = "";
let isWaitingForLogin = false;
let followed = [];

// The language follows from the file name.

function setLanguage() {
  codeEditor.setLanguage(fileName.value.split(".").pop());
}

function loadCode(name, code) {
  if (tabs && openTab !== "") openFile("");
  fileName.value = name;
  setLanguage();
  codeEditor.load(code);
}

fileName.addEventListener("input", setLanguage);
setLanguage();

// The files beside the entry file, where the problem allows them: a tab for each. The editor shows
// the file of the open tab, "" for the entry file.

const filesField = document.getElementById("files");
const tabs = document.getElementById("tabs");
const otherFiles = new Map();
let openTab = "";
let entryCode = "";

function keepOpenFile() {
  if (openTab === "") entryCode = codeEditor.value;
  else otherFiles.set(openTab, codeEditor.value);
}

function openFile(name) {
  keepOpenFile();
  openTab = name;
  codeEditor.setLanguage((name || fileName.value).split(".").pop());
  codeEditor.load(name === "" ? entryCode : otherFiles.get(name));
  codeEditor.mark([]);
  showTabs();
}

function removeFile(name) {
  if (openTab === name) openFile("");
  otherFiles.delete(name);
  showTabs();
}

function makeButton(text, label, onClick) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.textContent = text;
  if (label) button.setAttribute("aria-label", label);
  button.addEventListener("click", onClick);
  return button;
}

function showTabs() {
  tabs.hidden = otherFiles.size === 0;
  const buttons = ["", ...otherFiles.keys()].flatMap((name) => {
    const tab = makeButton(name || fileName.value, "", () => openFile(name));
    tab.setAttribute("aria-pressed", String(name === openTab));
    return name ? [tab, makeButton("×", `Remove ${name}`, () => removeFile(name))] : [tab];
  });
  tabs.replaceChildren(...buttons);
}

async function loadOtherFiles(chosen) {
  for (const file of chosen) {
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true });
      otherFiles.set(file.name, decoder.decode(await file.arrayBuffer()));
      if (openTab === file.name) codeEditor.load(otherFiles.get(file.name));
    } catch {
      showMessage("error", `${file.name} is not UTF-8 text: choose source files.`);
    }
  }
  showTabs();
}

filesField?.addEventListener("change", async () => {
  await loadOtherFiles([...filesField.files]);
  // Their contents are in the editor.
  filesField.value = "";
});
fileName.addEventListener("input", () => { if (tabs) showTabs(); });

// The draft

function checkedValues(name) {
  return [...form.querySelectorAll(`input[name="${name}"]:checked`)].map((field) => field.value);
}

function saveDraft() {
  if (openTab !== "") keepOpenFile();
  const draft = {
    name: fileName.value,
    code: openTab === "" ? codeEditor.value : entryCode,
    files: tabs ? [...otherFiles] : [],
    modes: checkedValues("mode"),
    gpus: checkedValues("gpu"),
    isWaitingForLogin,
  };
  try {
    const isUntouched = draft.code === starter && draft.files.length === 0;
    if (isUntouched && !isWaitingForLogin) localStorage.removeItem(draftKey);
    else localStorage.setItem(draftKey, JSON.stringify(draft));
  } catch {
    // The browser stores nothing: the code is only on this page.
  }
}

function restoreDraft() {
  let draft = null;
  try {
    draft = JSON.parse(localStorage.getItem(draftKey));
  } catch {
    return;
  }
  if (draft === null) return;
  loadCode(draft.name, draft.code);
  if (tabs) {
    for (const [name, text] of draft.files ?? []) otherFiles.set(name, text);
    showTabs();
  }
  for (const field of form.querySelectorAll('input[name="mode"], input[name="gpu"]')) {
    field.checked = [...draft.modes, ...draft.gpus].includes(field.value);
  }
  if (draft.isWaitingForLogin && !form.dataset.login) {
    showMessage("notice", "You are logged in. Your code is below: submit it when you are ready.");
  }
}

if ("restoresDraft" in form.dataset) restoreDraft();

form.addEventListener("input", saveDraftSoon);
addEventListener("pagehide", saveDraft);

// Starters and files

function isChanged() {
  return codeEditor.value !== starter && codeEditor.value.trim() !== "";
}

for (const link of document.querySelectorAll("a[data-starter]")) {
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    if (isChanged() && !confirm("Replace your code with the starter?")) return;
    const response = await fetch(link.dataset.starter).catch(() => null);
    if (!response?.ok) {
      showMessage("error", "The starter cannot be loaded: try again in a minute.");
      return;
    }
    starter = await response.text();
    loadCode(link.dataset.name, starter);
    codeEditor.focus();
  });
}

async function loadFile(file) {
  if (file.size > Number(form.dataset.bytesMax)) {
    const most = Number(form.dataset.bytesMax).toLocaleString("en");
    showMessage("error", `${file.name} is too large: this problem takes at most ${most} bytes.`);
    return;
  }
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    loadCode(file.name, decoder.decode(await file.arrayBuffer()));
    messages.replaceChildren();
  } catch {
    showMessage("error", `${file.name} is not UTF-8 text: choose the one source file.`);
  }
}

fileField.addEventListener("change", async () => {
  if (fileField.files.length) await loadFile(fileField.files[0]);
  // Its content is in the editor.
  fileField.value = "";
});
form.addEventListener("dragover", (event) => {
  event.preventDefault();
  form.classList.add("dropping");
});
form.addEventListener("dragleave", () => form.classList.remove("dropping"));
form.addEventListener("drop", async (event) => {
  event.preventDefault();
  form.classList.remove("dropping");
  if (event.dataTransfer.files.length) await loadFile(event.dataTransfer.files[0]);
});
document.querySelector("[data-scripted]").hidden = false;
document.querySelector("[data-indents]").hidden = isPlain;
document.getElementById("result").hidden = false;

// Submitting

function showMessage(kind, text) {
  const message = document.createElement("p");
  message.className = kind;
  message.setAttribute("role", kind === "error" ? "alert" : "status");
  message.textContent = text;
  messages.replaceChildren(message);
  messages.scrollIntoView({ block: "nearest" });
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function sendForm(button) {
  const fields = new FormData(form);
  fields.delete("file");
  fields.delete("files");
  for (const [name, text] of otherFiles) {
    fields.append("files", new Blob([text], { type: "text/plain" }), name);
  }
  if (button?.name) fields.append(button.name, button.value);
  const response = await fetch(form.action, { method: "POST", body: fields });
  const text = await response.text();
  if (response.headers.get("content-type")?.startsWith("application/json")) {
    showMessage("error", JSON.parse(text).detail);
    return;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const answer = page.getElementById("messages");
  if (response.redirected) {
    form.elements.key.value = newKey();
    messages.replaceChildren();
    const { pathname } = new URL(response.url);
    const links = [...(answer?.querySelectorAll('a[href^="/submissions/"]') ?? [])];
    showResults(
      pathname === form.getAttribute("action")
        ? links.map((link) => link.getAttribute("href")) : [pathname],
    );
  } else if (answer) {
    form.elements.csrf.value = page.querySelector('#editor input[name="csrf"]').value;
    messages.replaceChildren(...answer.childNodes);
    messages.scrollIntoView({ block: "nearest" });
  } else {
    showMessage("error", page.querySelector(".error")?.textContent ?? "It does not work: try again.");
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  // The form has the entry file; the others are added to it.
  if (tabs && openTab !== "") openFile("");
  codeEditor.save();
  isWaitingForLogin = "login" in form.dataset;
  saveDraft();
  if (isWaitingForLogin) {
    location.assign(form.dataset.login);
    return;
  }
  submittedCode = codeEditor.value;
  submitButton.disabled = true;
  showMessage("notice", "Sending …");
  try {
    await sendForm(event.submitter);
  } catch {
    showMessage("error", "The platform does not respond. Your code is kept: submit again.");
  } finally {
    submitButton.disabled = false;
  }
});

// Results

function showResults(paths) {
  for (const events of followed) events.close();
  followed = [];
  codeEditor.mark([]);
  const results = document.getElementById("results");
  results.replaceChildren();
  for (const path of paths) {
    const heading = document.createElement("h3");
    const link = document.createElement("a");
    link.href = path;
    link.textContent = `Submission ${path.split("/").pop()}`;
    heading.append(link);
    const parts = document.createElement("div");
    parts.className = "submission";
    results.append(heading, parts);
    followResult(path, parts);
  }
  document.getElementById("result").scrollIntoView({ block: "nearest" });
}

async function followResult(path, parts) {
  const page = await fetchPage(path).catch(() => null);
  if (page === null) {
    parts.textContent = "The result cannot be shown here: open its page.";
    return;
  }
  const live = page.getElementById("live");
  showParts(page, path, parts);
  if (live !== null) {
    followed.push(
      followSubmission(path, live.dataset.events, (page) => showParts(page, path, parts)),
    );
  }
}

// Marks the line of an error unless it has changed since, and returns the error in words.
function markError(card) {
  if (card === null) return "";
  const line = Number(card.dataset.errorLine);
  const lineOf = (code) => code.split("\n")[line - 1];
  if (lineOf(codeEditor.value) === lineOf(submittedCode)) {
    codeEditor.mark([{ line, message: card.dataset.error }]);
  }
  return `; line ${line}: ${card.dataset.error}`;
}

// Shows the parts of a submission's page; their ids are made unique, and their headings lower.
function showParts(page, path, parts) {
  const prefix = `submission-${path.split("/").pop()}`;
  const state = page.querySelector("#submission .result").textContent;
  const error = markError(page.querySelector("[data-error-line]"));
  const announcement = `${page.querySelector("h1").textContent}: ${state.trim()}${error}`;
  const status = document.getElementById("announcement");
  if (status.textContent !== announcement) status.textContent = announcement;
  const sections = PARTS.flatMap(
    (name) => [...page.querySelectorAll(`section[aria-labelledby="${name}"]`)],
  );
  for (const section of sections) {
    section.setAttribute("aria-labelledby", `${prefix}-${section.getAttribute("aria-labelledby")}`);
    for (const heading of section.querySelectorAll("h2")) {
      const lower = document.createElement("h4");
      lower.id = heading.id;
      lower.className = heading.className;
      lower.append(...heading.childNodes);
      heading.replaceWith(lower);
    }
    section.removeAttribute("id");
    section.removeAttribute("aria-live");
    for (const element of section.querySelectorAll("[id]")) element.id = `${prefix}-${element.id}`;
    for (const link of section.querySelectorAll('a[href^="#"]')) {
      link.href = path + link.getAttribute("href");
    }
  }
  const { top, bottom } = parts.getBoundingClientRect();
  const isWatched = top < innerHeight && bottom > 0;
  parts.replaceChildren(...sections);
  // Whoever waits for the result sees its card; whoever writes on stays where they are.
  if (isWatched) parts.querySelector(".card-result")?.scrollIntoView({ block: "nearest" });
}
