// The page: who one is, where one looks, what is said there, and what one does.

import { field, leaves, values } from "./command.js";
import { message } from "./message.js";
import { node } from "./text.js";

const at = (id) => document.getElementById(id);
const THREADS = [10, 11, 12], CATEGORY = 4;
const here = { person: "", channel: "", state: { people: [], roles: [], commands: [], channels: [] }, names: new Map(), drawn: "", told: "", shown: new Map() };

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
    if (one.max_length) input.maxLength = one.max_length;
    return node("label", {}, one.label ?? "", input);
  });
  const buttons = node("div", { className: "row" }, node("button", { textContent: "Submit", className: "style1" }),
    node("button", { textContent: "Cancel", type: "button", onclick: () => at("modal").close() }));
  form.replaceChildren(node("h3", { textContent: done.modal.title }), ...inputs, buttons);
  form.onsubmit = () => act("fill_in", { interaction: done.interaction, values: Object.fromEntries(new FormData(form)) });
  at("modal").showModal();
}

function chosen() {
  return leaves(here.state.commands).find((one) => one.path === at("command").value);
}

function drawOptions() {
  const leaf = chosen();
  const guess = async (option, typed) => (await act("autocomplete", { command: leaf.path, option, typed }))?.choices ?? [];
  at("options").replaceChildren(...(leaf?.options ?? []).map((one) => field(one, here.state, guess)));
}

function drawCommands() {
  const told = JSON.stringify(here.state.commands);
  if (told === here.drawn) return;
  here.drawn = told;
  const before = at("command").value;
  at("command").replaceChildren(...leaves(here.state.commands).map((one) => new Option(`/${one.path}`, one.path)));
  if (before) at("command").value = before;
  drawOptions();
}

function drawPeople() {
  const told = JSON.stringify([here.person, here.state.people, here.state.roles, here.state.members]);
  if (told === here.told) return;
  here.told = told;
  at("people").replaceChildren(...here.state.people.map((one) => new Option(one.username, one.id)));
  at("people").value = here.person;
  const held = here.state.members[here.person] ?? [];
  const roles = here.state.roles.filter((one) => one.id !== here.state.guild);
  at("roles").replaceChildren(...roles.map((one) => {
    const box = node("input", { type: "checkbox", checked: held.includes(one.id) });
    box.onchange = () => ask(`people/${here.person}/roles`, { role: one.id, is_held: box.checked });
    return node("label", {}, box, ` ${one.name}`);
  }));
}

function drawChannels() {
  const everything = here.state.channels.filter((one) => one.type !== CATEGORY);
  const tops = everything.filter((one) => !THREADS.includes(one.type));
  const ordered = tops.flatMap((one) => [one, ...everything.filter((kid) => kid.parent_id === one.id && THREADS.includes(kid.type))]);
  if (!ordered.some((one) => one.id === here.channel)) here.channel = ordered[0]?.id ?? "";
  at("channels").replaceChildren(...ordered.map((one) => {
    const is_thread = THREADS.includes(one.type);
    const name = one.name ?? `letters with ${one.recipients[0].username}`;
    const button = node("button", { textContent: `${is_thread ? "🧵" : "#"} ${name}`, onclick: () => { here.channel = one.id; draw(); } });
    if (one.id === here.channel) button.setAttribute("aria-current", "true");
    return node("li", { className: is_thread ? "thread" : "" }, button);
  }));
}

// What has not changed stays as it is, with whatever somebody was about to choose in it.
function drawn(said) {
  const told = JSON.stringify(said);
  const [before, old] = here.shown.get(said.id) ?? [];
  const item = before === told ? old : message(said, here.names, act);
  here.shown.set(said.id, [told, item]);
  return item;
}

function drawMessages(said) {
  const list = at("messages"), items = said.map(drawn);
  const is_low = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const is_same = items.length === list.children.length && items.every((one, n) => one === list.children[n]);
  if (!is_same) list.replaceChildren(...items);
  if (is_low) list.scrollTop = list.scrollHeight;
}

async function draw() {
  here.state = { ...(await ask("state")), channels: [] };
  if (!here.person) here.person = here.state.people.at(-1).id;
  here.state.channels = await ask(`people/${here.person}/channels`);
  for (const one of here.state.people) here.names.set(one.id, one.global_name);
  for (const one of [...here.state.roles, ...here.state.channels]) here.names.set(one.id, one.name);
  drawPeople();
  drawChannels();
  drawCommands();
  const said = here.channel ? await ask(`people/${here.person}/channels/${here.channel}`) : [];
  drawMessages(said);
  const wrong = [...here.state.violations, ...here.state.own_faults];
  at("health").textContent = [here.state.is_connected ? "the bot is connected" : "no bot is connected", ...wrong].join("\n");
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

at("people").onchange = () => { here.person = at("people").value; draw(); };
at("command").onchange = drawOptions;
at("joining").onsubmit = async (event) => {
  event.preventDefault();
  here.person = (await ask("people", { name: new FormData(event.target).get("name") })).id;
  event.target.reset();
  draw();
};
at("doing").onsubmit = async (event) => {
  event.preventDefault();
  const leaf = chosen();
  if (leaf) await act("slash", { command: leaf.path, options: await values(leaf.options, event.target) });
};
follow();
