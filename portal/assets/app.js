// Keeps pages new. Everything works without it; it replaces what the server has made anew, and nothing under the reader's hands.
"use strict";
const policy = window.trustedTypes
  ? trustedTypes.createPolicy("prs", { createHTML: (html) => html })
  : { createHTML: (html) => html };
const sign = document.querySelector("[data-state]");

function say(is, text) {
  if (!sign || sign.textContent === text) return;
  sign.dataset.is = is;
  sign.textContent = text;
}

// Whether the reader is busy with this part: points at it, has the focus or a selection in it, or has something open there.
function isBusy(part) {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  const opened = [...part.querySelectorAll("details")].some((each) => each.open !== each.hasAttribute("data-open"));
  const marked = part.querySelector("input[type=checkbox]:checked");
  return selected || opened || marked || part.matches(":hover") || part.contains(document.activeElement);
}

function fill(part, html) {
  part.waiting = null;
  part.innerHTML = policy.createHTML(html);
  for (const each of part.querySelectorAll("details[open]")) each.setAttribute("data-open", "");
}

function renew(part, html) {
  if (isBusy(part)) part.waiting = html;
  else fill(part, html);
}

for (const each of document.querySelectorAll("details[open]")) each.setAttribute("data-open", "");

// A job: its parts, as the server sends them.
const job = document.querySelector("[data-live]");
if (job && window.EventSource) {
  let source = null;
  let hidden = 0;
  const parts = new Map([...job.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
  const close = () => {
    if (source) source.close();
    source = null;
  };
  const open = () => {
    close();
    source = new EventSource(job.dataset.live);
    source.addEventListener("parts", (event) => {
      for (const [name, html] of Object.entries(JSON.parse(event.data).parts)) {
        if (parts.has(name)) renew(parts.get(name), html);
      }
      say("live", "live");
    });
    source.addEventListener("stale", (event) => say("stale", "Not new: " + JSON.parse(event.data).cause));
    source.addEventListener("fresh", () => say("live", "live"));
    source.addEventListener("end", () => {
      close();
      job.removeAttribute("data-live");
      for (const each of job.querySelectorAll("[data-running]")) each.remove();
      for (const part of parts.values()) if (part.waiting) fill(part, part.waiting);
      say("ended", "The job has ended.");
    });
    source.addEventListener("error", () => say("stale", "Not new: the server does not answer."));
  };
  open();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (!job.hasAttribute("data-live")) return;
    if (document.hidden) hidden = setTimeout(close, 30000);
    else if (!source) open();
  });
  setInterval(() => {
    for (const part of parts.values()) if (part.waiting && !isBusy(part)) fill(part, part.waiting);
  }, 1000);
}

// The list of jobs: rows change in their places, and new jobs wait until the reader asks for them. Without events it is asked for now and then.
const rows = document.querySelector("[data-rows]");
if (rows) {
  const newer = document.querySelector("[data-newer]");
  const fresh = new Set();
  let source = null;
  let hidden = 0;
  let isDirty = false;
  let last = 0;
  const ask = async () => {
    const answer = await fetch(rows.dataset.rows, { headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    const made = document.createElement("template");
    made.innerHTML = policy.createHTML(await answer.text());
    return made.content;
  };
  const renewRows = async () => {
    isDirty = false;
    last = Date.now();
    try {
      const found = await ask();
      for (const row of rows.querySelectorAll("[data-row]")) {
        const now = found.querySelector(`[data-row="${CSS.escape(row.dataset.row)}"]`);
        if (!now || now.innerHTML === row.innerHTML || row.matches(":hover") || row.contains(document.activeElement)) continue;
        const box = row.querySelector("input[type=checkbox]");
        const mark = now.querySelector("input[type=checkbox]");
        if (box && mark) mark.checked = box.checked;
        row.replaceWith(now);
      }
      say("live", "live");
    } catch {
      say("stale", "Not new: the server does not answer.");
    }
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };
  const open = () => {
    close();
    source = new EventSource("/api/v1/events?types=job");
    source.addEventListener("list", () => (isDirty = true));
    source.addEventListener("job", (event) => {
      const id = JSON.parse(event.data).job_id;
      if (rows.querySelector(`[data-row="${CSS.escape(id)}"]`)) isDirty = true;
      else if (!last || !fresh.has(id)) {
        fresh.add(id);
        if (newer) {
          newer.hidden = false;
          newer.textContent = fresh.size === 1 ? "1 other job is new or changed" : fresh.size + " other jobs are new or changed";
        }
      }
    });
    source.addEventListener("gone", () => (isDirty = true));
    source.addEventListener("stale", (event) => say("stale", "Not new: " + JSON.parse(event.data).cause));
    source.addEventListener("fresh", () => say("live", "live"));
    source.addEventListener("error", () => say("stale", "Not new: the server does not answer."));
  };
  if (window.EventSource) open();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(close, 30000);
    else if (!source) open();
  });
  setInterval(() => {
    if (!document.hidden && (isDirty || Date.now() - last > 15000)) renewRows();
  }, 1000);
}

// A log that grows: what is new stands at its end.
const follow = document.querySelector("[data-follow]");
if (follow) {
  const MOST = 2000;
  const lines = document.querySelector("[data-lines]");
  let at = Number(follow.dataset.at);
  let timer = 0;
  const look = async () => {
    try {
      const query = new URLSearchParams({ path: follow.dataset.path, at });
      const answer = await fetch(follow.dataset.follow + "?" + query);
      if (!answer.ok) return;
      const found = await answer.json();
      const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
      for (const line of found.lines) {
        const each = document.createElement("span");
        each.className = "l";
        each.id = "b" + line.offset;
        each.textContent = line.text + "\n";
        lines.append(each);
      }
      while (lines.childElementCount > MOST) lines.firstElementChild.remove();
      at = found.to;
      if (found.lines.length && isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
    } catch {
      // The next look may succeed.
    }
  };
  follow.hidden = false;
  follow.addEventListener("click", () => {
    clearInterval(timer);
    timer = timer ? 0 : setInterval(look, 1000);
    follow.textContent = timer ? "Stop following" : "Follow";
  });
}

// The page behind a link that logs in presses its own button: a program that only looks at links does not.
const press = document.querySelector("[data-press]");
if (press) press.requestSubmit();

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input,textarea,select") || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  document.getElementById("q").focus();
});
