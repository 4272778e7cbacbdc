// Keeps pages new and answers keys. Everything else works without it; it replaces what the server has made anew, and nothing under the reader's hands.
"use strict";
const policy = window.trustedTypes
  ? trustedTypes.createPolicy("prs", { createHTML: (html) => html })
  : { createHTML: (html) => html };
const one = (css, within = document) => within.querySelector(css);
const all = (css, within = document) => [...within.querySelectorAll(css)];
const look = document.documentElement.dataset;
const more = document.currentScript.dataset;
const sign = one("[data-state]");
const told = one("#told");
let wanted = null;
let chip = "";
let toldAt = 0;

// For a reader of screens: what changed, once.
function tell(text) {
  if (told && told.textContent !== text) told.textContent = text;
}

function say(is, text = is) {
  if (!sign || sign.textContent === text) return;
  sign.dataset.is = is;
  sign.textContent = text;
}

const stale = (cause = "the server does not answer.") => say("stale", "Not new: " + cause);

// Points in time: in the zone of the reader, where that is wanted.
function moment(at, like) {
  const two = "2-digit";
  return at.toLocaleString("sv", {
    ...(/\d-\d/.test(like) && { year: "numeric", month: two, day: two }),
    hour: two,
    minute: two,
    ...(/:\d\d:/.test(like) && { second: two }),
    ...(/UTC/.test(like) && { timeZoneName: "short" }),
    ...(look.zone === "utc" && { timeZone: "UTC" }),
  });
}

// Makes what has just come usable: times, copies.
function ready(within) {
  if (look.zone !== "utc") {
    for (const each of all("time,text[data-at]", within)) {
      const text = each.textContent;
      if (!/\d:\d\d/.test(text)) continue;
      each.textContent = moment(new Date(each.dateTime || each.dataset.at * 1000), text);
      if (each.dateTime) each.title = text;
    }
    for (const each of all("[data-zone]", within)) each.textContent = moment(new Date(), "UTC").slice(6);
  }
  if (navigator.clipboard) {
    for (const each of all("code.command", within)) {
      const copy = document.createElement("button");
      copy.className = "copy";
      copy.type = "button";
      copy.textContent = "Copy";
      copy.ariaLabel = "Copy " + (copy.dataset.copy = each.textContent);
      each.after(" ", copy);
    }
  }
}

async function put(text) {
  await navigator.clipboard.writeText(text);
  tell("Copied: " + text);
}

// Whether the reader is busy with this part: points at it, has the focus or a selection in it, or has something open there.
function isBusy(part) {
  const { isCollapsed, anchorNode } = document.getSelection();
  return (
    part.matches(":hover,:focus-within") ||
    (!isCollapsed && part.contains(anchorNode)) ||
    one("input[type=checkbox]:checked", part) ||
    all("details", part).some((each) => each.open !== each.hasAttribute("data-open"))
  );
}

function markOpen(within) {
  for (const each of all("details[open]", within)) each.setAttribute("data-open", "");
}

function fill(part, html) {
  part.waiting = null;
  part.classList.remove("waits");
  part.innerHTML = policy.createHTML(html);
  markOpen(part);
  ready(part);
  const now = one("h1 ~ .state .chip", part);
  if (!now) return;
  if (now.textContent !== chip || Date.now() - toldAt > 30000) {
    chip = now.textContent;
    toldAt = Date.now();
    tell(all(".chip,.counts", part).map((each) => each.textContent).join(", "));
  }
}

function renew(part, html) {
  part.waiting = html;
  part.classList.toggle("waits", isBusy(part));
  if (!isBusy(part)) fill(part, html);
}

// What the server has at an address, as a page.
async function ask(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.status);
  const made = document.createElement("template");
  made.innerHTML = policy.createHTML(await answer.text());
  ready(made.content);
  return made.content;
}

const pause = one("[data-pause]");
let isPaused = false;

function offerPause(turn) {
  pause.hidden = false;
  pause.onclick = () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) say("paused");
    turn();
  };
}

// A stream of events, which rests while nobody looks or the reader wants it to. What has a pulse and says nothing for a while is not new.
function stream(address, hear, hasPulse) {
  let source = null;
  let hidden = 0;
  let again = 0;
  let heard = 0;
  const close = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const open = () => {
    close();
    heard = Date.now();
    source = new EventSource(address);
    source.onopen = () => say("live");
    const acts = { stale: (data) => stale(data.cause), fresh: () => say("live"), bye: () => {}, ...hear };
    for (const [name, act] of Object.entries(acts)) {
      source.addEventListener(name, (event) => {
        heard = Date.now();
        act(JSON.parse(event.data));
      });
    }
    source.addEventListener("error", () => {
      stale();
      if (source && source.readyState === 2) again = setTimeout(open, 3000);
    });
  };
  const end = () => {
    close();
    clearInterval(beat);
    document.removeEventListener("visibilitychange", turn);
    pause.remove();
  };
  const turn = () => {
    clearTimeout(hidden);
    if (isPaused) return;
    if (document.hidden) hidden = setTimeout(close, 30000);
    else if (!source) open();
  };
  const beat = setInterval(() => {
    if (hasPulse && source && !document.hidden && Date.now() - heard > 5000) stale("nothing has come for 5 seconds.");
  }, 1000);
  document.addEventListener("visibilitychange", turn);
  offerPause(() => (isPaused ? close() : open()));
  open();
  return end;
}

ready(document);
markOpen(document);

// A job: its parts, as the server sends them. Of a page that is hidden the title alone is kept new.
const job = one("[data-live]");
if (job && window.EventSource) {
  const parts = new Map(all("[data-part]", job).map((part) => [part.dataset.part, part]));
  const title = setInterval(async () => {
    if (document.hidden) document.title = one("title", await ask(location.pathname)).textContent;
  }, 60000);
  const settles = setInterval(() => {
    for (const part of parts.values()) if (part.waiting && !isBusy(part)) fill(part, part.waiting);
  }, 1000);
  const end = stream(
    job.dataset.live,
    {
      parts: (data) => {
        for (const [name, html] of Object.entries(data.parts)) if (parts.has(name)) renew(parts.get(name), html);
        if (data.title) document.title = data.title + " – prs";
        say("live");
      },
      end: async () => {
        end();
        clearInterval(title);
        clearInterval(settles);
        job.removeAttribute("data-live");
        say("ended", "The job has ended.");
        // What may be done now is another thing than before.
        const found = await ask(location.pathname + location.search);
        for (const [name, part] of parts) part.replaceChildren(...one(`[data-part=${name}]`, found).childNodes);
      },
    },
    parts.has("head"),
  );
}

// A list: rows change in their places, and new jobs wait until the reader asks for them.
const rows = one("[data-rows]");
if (rows) {
  const newer = one("[data-newer]");
  const fresh = new Set();
  const row = (id, within) => one(`[data-row="${CSS.escape(id)}"]`, within);
  let isDirty = false;
  let last = Date.now();
  const touch = (data) => {
    if (!data.job_id || row(data.job_id, rows)) isDirty = true;
    else fresh.add(data.job_id);
    newer.hidden = !fresh.size;
    newer.textContent = "Other jobs, new or changed: " + fresh.size;
  };
  const renewRows = async () => {
    isDirty = false;
    last = Date.now();
    try {
      const found = await ask(rows.dataset.rows);
      if (!newer) {
        if (!isBusy(rows)) rows.replaceChildren(found);
        return say("live");
      }
      for (const each of all("[data-row]", rows)) {
        const now = row(each.dataset.row, found);
        if (!now || now.innerHTML === each.innerHTML || each.matches(":hover,:focus-within")) continue;
        const mark = one("input[type=checkbox]", now);
        if (mark) mark.checked = one("input[type=checkbox]", each).checked;
        each.replaceWith(now);
      }
      say("live");
    } catch {
      stale();
    }
  };
  if (newer) stream("/api/v1/events?types=job", { list: () => (isDirty = true), job: touch, gone: touch });
  else offerPause(() => {});
  setInterval(() => {
    const isOld = Date.now() - last > 1000 * (rows.dataset.every || 15);
    if (!document.hidden && (isDirty || isOld) && !isPaused) renewRows();
  }, 1000);
}

// A log that grows.
const follow = one("[data-follow]");
if (follow) import(more.logs).then((logs) => logs.begin(follow, one, ready));

// The page behind a link that logs in presses its own button: a program that only looks at links does not.
const press = one("[data-press]");
if (press) press.requestSubmit();

// Pictures: arrows walk their cells and marks, what is there is read out, Enter and a click open it.
async function walk(box, act) {
  const pictures = await import(more.pictures);
  const to = act(pictures, (box.places ??= pictures.places(box, { one, all, moment })));
  if (to) location = to;
}

document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  const box = event.target.closest("[data-open]");
  if (copy) put(copy.dataset.copy);
  else if (box) walk(box, (pictures, places) => pictures.under(places, event));
});

// Single letters, outside fields; an element names its own as data-key.
function step(by) {
  const links = all("main tbody tr").flatMap((each) => one("a", each) || []);
  const at = links.findIndex((each) => each.closest("tr").contains(document.activeElement));
  const to = links[Math.max(0, Math.min(at + by, links.length - 1))];
  if (to) to.focus();
}

let errorAt = -1;
const ACTS = {
  j: () => step(1),
  k: () => step(-1),
  x: () => {
    const row = document.activeElement.closest("tr");
    const mark = row && one("input[type=checkbox]", row);
    if (mark) mark.checked = !mark.checked;
  },
  e: () => {
    const lines = all(".l");
    errorAt = lines.findIndex((each, at) => at > errorAt && /error|exception|traceback|critical|fatal/i.test(each.textContent));
    if (errorAt < 0) tell("No further error in this window.");
    else location.hash = lines[errorAt].id;
  },
  c: () => put(location.href),
};

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  const box = target.closest("[data-walk]");
  if (box && /^(Arrow|Home|End|Enter)/.test(key)) {
    event.preventDefault();
    return walk(box, (pictures, places) => pictures.move(box, places, key));
  }
  if (look.keys === "off" || event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=checkbox]),textarea,select")) return;
  const named = one(`[data-key="${CSS.escape((wanted === "g" ? "g" : "") + key)}"]`) || (/^[1-8]$/.test(key) && all(".tabs a")[key - 1]);
  wanted = key;
  if (named) {
    event.preventDefault();
    if (named.matches("input")) named.focus();
    else named.click();
  } else if (ACTS[key]) ACTS[key]();
});
