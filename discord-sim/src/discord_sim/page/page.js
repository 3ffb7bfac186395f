// The page: who one is, where one looks, what is said there, and what one does.

import { field, leaves, values } from "./command.js";
import { message } from "./message.js";
import { node, text } from "./text.js";

const at = (id) => document.getElementById(id);
const DM = 1, CATEGORY = 4, THREADS = [10, 11, 12], FORUM = 15, PRIVATE = 12;
const here = { person: "", channel: "", state: { people: [], roles: [], commands: [], channels: [] }, names: new Map(), drawn: "", told: "", shown: new Map(), read: new Map() };

async function ask(path, body) {
  const answer = await fetch(path, body && { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.detail ?? `answered ${answer.status}`);
  return said;
}

async function act(kind, body) {
  at("said").textContent = "";
  try {
    const done = await ask(`people/${here.person}/${kind}`, { channel: here.channel, ...body });
    if (done.is_failed) at("said").textContent = "The application did not respond";
    if (done.modal) open(done);
    return done;
  } catch (error) {
    at("said").textContent = error.message;
    return null;
  }
}

function open(done) {
  const form = at("modal").firstElementChild;
  const fields = done.modal.components.flatMap((row) => row.components ?? [{ label: row.label, ...row.component }]);
  const inputs = fields.filter((one) => one.type === 4).map((one) => {
    const input = node(one.style === 2 ? "textarea" : "input", { name: one.custom_id, value: one.value ?? "", placeholder: one.placeholder ?? "", required: one.required !== false });
    if (one.min_length) input.minLength = one.min_length;
    if (one.max_length) input.maxLength = one.max_length;
    return node("label", {}, one.label ?? "", input);
  });
  const buttons = node("div", { className: "row" }, node("button", { textContent: "Submit", className: "style1" }),
    node("button", { textContent: "Cancel", type: "button", onclick: () => at("modal").close() }));
  form.replaceChildren(node("h3", { textContent: done.modal.title }), ...inputs, buttons);
  form.onsubmit = () => act("fill_in", { interaction: done.interaction, values: Object.fromEntries(new FormData(form)) });
  at("modal").showModal();
}

function look(channel) {
  here.channel = channel;
  at("said").textContent = "";
  return draw();
}

// Where this window is: several windows are several people, and a reload changes neither.
function keepPlace() {
  const place = `#${here.person}/${here.channel}`;
  if (location.hash !== place) history.replaceState(null, "", place);
}

function chosen() {
  return leaves(offered()).find((one) => one.path === at("command").value);
}

// As a client does it: what needs a permission that one lacks is not in the list.
function offered() {
  const may = BigInt(here.state.may?.[here.person] ?? "0");
  return here.state.commands.filter(({ default_member_permissions: needed }) =>
    needed === null || (may & 8n) !== 0n || (needed !== "0" && (may & BigInt(needed)) === BigInt(needed)));
}

function drawOptions() {
  const leaf = chosen();
  const guess = async (option, typed) => {
    const others = Object.fromEntries(Object.entries(await values(leaf.options.filter((one) => one.type !== 11), at("doing"))).filter(([name]) => name !== option));
    return (await act("autocomplete", { command: leaf.path, option, typed, options: others }))?.choices ?? [];
  };
  at("about").textContent = leaf?.description ?? "";
  at("options").replaceChildren(...(leaf?.options ?? []).map((one) => field(one, here.state, guess)));
}

function drawCommands() {
  const told = JSON.stringify(offered());
  if (told === here.drawn) return;
  here.drawn = told;
  const before = at("command").value, paths = leaves(offered()).map((one) => one.path);
  at("command").replaceChildren(...paths.map((one) => new Option(`/${one}`, one)));
  if (paths.includes(before)) at("command").value = before;
  drawOptions();
}

function withRoles(person) {
  const held = here.state.members[person.id] ?? [];
  const names = here.state.roles.filter((one) => held.includes(one.id)).map((one) => one.name);
  if (person.id === here.state.owner) names.push("owns the server");
  return names.length ? `${person.username} (${names.join(", ")})` : person.username;
}

function drawPeople() {
  const told = JSON.stringify([here.person, here.state.people, here.state.roles, here.state.members]);
  if (told === here.told) return;
  here.told = told;
  at("people").replaceChildren(...here.state.people.map((one) => new Option(withRoles(one), one.id)));
  at("people").value = here.person;
  const held = here.state.members[here.person] ?? [];
  const roles = here.state.roles.filter((one) => one.id !== here.state.guild && !(here.state.members[here.state.bot] ?? []).includes(one.id));
  at("roles").replaceChildren(...roles.map((one) => {
    const box = node("input", { type: "checkbox", checked: held.includes(one.id) });
    box.onchange = () => ask(`people/${here.person}/roles`, { role: one.id, is_held: box.checked });
    return node("label", {}, box, ` ${one.name}`);
  }));
}

function called(one) {
  const sign = THREADS.includes(one.type) ? (one.type === PRIVATE ? "🔒" : "🧵") : one.type === FORUM ? "📋" : one.type === DM ? "✉️" : "#";
  return `${sign} ${one.name ?? `letters with ${one.recipients[0].username}`}`;
}

function drawChannels() {
  const everything = here.state.channels.filter((one) => one.type !== CATEGORY);
  const tops = everything.filter((one) => !THREADS.includes(one.type));
  const ordered = tops.flatMap((one) => [one, ...everything.filter((kid) => kid.parent_id === one.id && THREADS.includes(kid.type))]);
  if (!ordered.some((one) => one.id === here.channel)) here.channel = ordered[0]?.id ?? "";
  at("channels").replaceChildren(...ordered.map((one) => {
    const key = `${here.person}/${one.id}`, is_here = one.id === here.channel;
    if (is_here) here.read.set(key, one.last_message_id);
    const is_new = one.last_message_id && here.read.get(key) !== one.last_message_id;
    const button = node("button", { textContent: called(one), onclick: () => look(one.id) });
    if (is_here) button.setAttribute("aria-current", "true");
    const kinds = [THREADS.includes(one.type) ? "thread" : "", is_new ? "new" : "", one.thread_metadata?.archived ? "closed" : ""];
    return node("li", { className: kinds.join(" "), title: one.thread_metadata?.archived ? "closed; whoever writes opens it" : "" }, button);
  }));
  const place = ordered.find((one) => one.id === here.channel);
  at("place").textContent = place ? called(place) : "";
}

function threadOf(said) {
  const found = here.state.channels.find((one) => one.id === said.id && THREADS.includes(one.type) && one.id !== here.channel);
  return found && node("button", { className: "opens", textContent: `🧵 ${found.name} ›`, onclick: () => look(found.id) });
}

// What has not changed stays as it is, with whatever somebody was about to choose in it.
function drawn(said) {
  const told = JSON.stringify([said, Boolean(threadOf(said))]);
  const [before, old] = here.shown.get(said.id) ?? [];
  const item = before === told ? old : message(said, here.names, act, threadOf(said));
  here.shown.set(said.id, [told, item]);
  return item;
}

function drawMessages(items) {
  const list = at("messages");
  const is_low = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const is_same = items.length === list.children.length && items.every((one, n) => one === list.children[n]);
  if (!is_same) list.replaceChildren(...items);
  if (is_low) list.scrollTop = list.scrollHeight;
}

async function posts() {
  const found = here.state.channels.filter((one) => one.parent_id === here.channel).reverse();
  return Promise.all(found.map(async (one) => {
    const [first, ...rest] = await ask(`people/${here.person}/channels/${one.id}`);
    const start = (first?.content || first?.embeds[0]?.title || "").slice(0, 200);
    const more = `${rest.length} more ${rest.length === 1 ? "message" : "messages"}`;
    return node("li", {}, node("button", { className: "post", onclick: () => look(one.id) },
      node("span", { className: "title", textContent: one.name }), text(start, here.names), node("div", { className: "note", textContent: more })));
  }));
}

async function drawPlace() {
  const { person, channel } = here, place = here.state.channels.find((one) => one.id === channel);
  const read = async () => (place ? (await ask(`people/${person}/channels/${channel}`)).map(drawn) : []);
  const items = place?.type === FORUM ? await posts() : await read();
  // Somebody may have gone elsewhere meanwhile.
  if (person !== here.person || channel !== here.channel) return;
  drawMessages(items);
  at("messages").dataset.place = `${person}/${channel}`;
}

// One after the other: what one of them reads is not what another draws.
function draw() {
  here.drawing = (here.drawing ?? Promise.resolve()).then(redraw, redraw);
  return here.drawing;
}

async function redraw() {
  const { person: was, channel: place } = here, state = await ask("state");
  // Who came, or went elsewhere, while this was read is not in it yet.
  if (here.person === was && !state.people.some((one) => one.id === was)) here.person = state.people.at(-1).id;
  const { person } = here;
  state.channels = await ask(`people/${person}/channels`);
  if (person !== here.person || place !== here.channel) return state.changes - 1;
  here.state = state;
  for (const one of here.state.people) here.names.set(one.id, one.global_name);
  for (const one of [...here.state.roles, ...here.state.channels]) here.names.set(one.id, one.name);
  drawPeople();
  drawChannels();
  drawCommands();
  await drawPlace();
  keepPlace();
  const wrong = [...here.state.violations, ...here.state.own_faults];
  at("health").textContent = [here.state.is_connected ? "the bot is connected" : "no bot is connected", ...wrong].join("\n");
  at("health").className = wrong.length || !here.state.is_connected ? "wrong" : "";
  return here.state.changes;
}

async function follow() {
  for (;;) {
    try {
      const seen = await draw();
      await ask(`changes?after=${seen}`);
    } catch (error) {
      at("health").textContent = `the simulator does not answer: ${error.message}`;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

function takePlace(url) {
  [here.person, here.channel] = new URL(url).hash.slice(1).split("/").concat("");
  here.shown.clear();
}

takePlace(location.href);
// Not where one is now: what was drawn meanwhile may have written the old place there.
window.onhashchange = (event) => { takePlace(event.newURL); draw(); };
at("people").onchange = () => { here.person = at("people").value; here.shown.clear(); draw(); };
at("command").onchange = drawOptions;
at("joining").onsubmit = async (event) => {
  event.preventDefault();
  const form = event.target;
  here.person = (await ask("people", { name: new FormData(form).get("name") })).id;
  form.reset();
  draw();
};
at("doing").onsubmit = async (event) => {
  event.preventDefault();
  const leaf = chosen();
  if (leaf) await act("slash", { command: leaf.path, options: await values(leaf.options, event.target) });
};
follow();
