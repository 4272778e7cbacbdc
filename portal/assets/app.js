// Keeps pages new and answers keys. Everything else works without it; it replaces what the server has made anew, and nothing under the
// reader's hands. What is sent of it is shorter: `script.rs` of this crate says how.

const whole = document;
const one = (css, within = whole) => within.querySelector(css);
const all = (css, within = whole) => [...within.querySelectorAll(css)];
const make = (tag, set) => Object.assign(whole.createElement(tag), set);
const on = (kind, act) => whole.addEventListener(kind, act, true);
const time = () => Date.now();
const placeOf = (each) => each.getBoundingClientRect();
const between = (number, most) => Math.max(0, Math.min(number, most));
const policy = window.trustedTypes?.createPolicy("prs", { createHTML: (markup) => markup });
const look = whole.documentElement.dataset;
const page = location.pathname;

// Writes what is not there yet: a reader of screens hears it once.
function write(node, phrase) {
  if (node && node.textContent !== phrase) node.textContent = phrase;
}

const tell = (phrase) => write(one("#told"), phrase);

// How new the page is.
function say(is, phrase = is) {
  const sign = one("[data-state]");
  if (sign) sign.dataset.is = is;
  write(sign, phrase);
}

const sayStale = (cause = "the server does not answer.") => say("stale", "Not new: " + cause);

// A text that says a point in time, in the zone of the reader.
function moment(at, like) {
  const [day, clock, zone] = new Date(at)
    .toLocaleString("sv", { timeZoneName: "short", ...(look.zone && { timeZone: "UTC" }) })
    .split(" ");
  return like
    .replace(/\d+-\d\d-\d\d/, day)
    .replace(/\d\d:\d\d(:\d\d)?/, (phrase) => clock.slice(0, phrase.length))
    .replace("UTC", zone);
}

// Makes what has just come usable: times, copies. What is open in it is not the reader's doing.
function ready(within) {
  for (const each of look.zone ? [] : all("time,text[data-at],[data-zone]", within)) {
    const phrase = each.textContent;
    write(each, moment(each.dateTime || each.dataset.at * 1000 || time(), phrase));
    if (each.dateTime) each.title = phrase;
  }
  for (const each of navigator.clipboard ? all("code.command", within) : []) {
    const button = make("button", { className: "copy", type: "button", textContent: "Copy" });
    button.ariaLabel = "Copy " + (button.dataset.copy = each.textContent);
    each.after(" ", button);
  }
  for (const each of all("details[open]:not([data-table])", within)) each.dataset.open = "";
}

function parsed(markup) {
  const made = make("template");
  made.innerHTML = policy ? policy.createHTML(markup) : markup;
  ready(made.content);
  return made.content;
}

// What the server has at an address; where that is a problem, its title is thrown.
async function ask(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  const found = parsed(await answer.text());
  if (!answer.ok) throw one("h1", found).textContent;
  return found;
}

// Whether the reader is busy with this part: points at it, has the focus or a selection in it, or has something open there.
function isBusy(piece) {
  const { isCollapsed, anchorNode } = whole.getSelection();
  return (
    piece.matches(":hover,:focus-within,:has(input:checked,details[open]:not([data-open]),[data-open]:not([open],div))") ||
    (!isCollapsed && piece.contains(anchorNode))
  );
}

// Puts what is new into a part, once the reader is not busy with it.
let chip, toldAt;
function renew(piece, markup) {
  const waits = isBusy(piece);
  piece.waiting = waits && [markup];
  piece.classList.toggle("waits", waits);
  if (waits) return;
  piece.replaceChildren(parsed(markup));
  const state = one("h1 ~ .state .chip", piece)?.textContent;
  if (state && (state !== chip || time() - toldAt > 30000)) {
    chip = state;
    toldAt = time();
    tell(all(".chip,.counts", piece).map((each) => each.textContent).join(", "));
  }
}

let isPaused;
const pause = one("[data-pause]");
function offerPause(turn) {
  if (!pause) return;
  pause.hidden = false;
  pause.onclick = () => {
    isPaused = !isPaused;
    write(pause, isPaused ? "Go on" : "Pause");
    if (isPaused) say("paused");
    turn?.();
  };
}

// A stream of events, which rests while nobody looks or the reader wants it to. What has a pulse and says nothing for a while is not new.
function stream(address, hear, hasPulse) {
  let source, timer, heard, isOver;
  const acts = { stale: ({ cause }) => sayStale(cause), fresh: () => say("live"), bye: () => {}, ...hear };
  const leave = () => {
    clearTimeout(timer);
    source?.close();
  };
  const begin = () => {
    leave();
    heard = time();
    source = new EventSource(address());
    source.onopen = acts.fresh;
    source.onerror = () => {
      sayStale();
      if (source.readyState === 2) timer = setTimeout(begin, 3000);
    };
    for (const id in acts) {
      source.addEventListener(id, ({ data }) => {
        heard = time();
        acts[id](JSON.parse(data));
      });
    }
  };
  const turn = () => {
    clearTimeout(timer);
    if (isOver || isPaused) leave();
    else if (whole.hidden) timer = setTimeout(leave, 30000);
    else if (source.readyState === 2) begin();
  };
  setInterval(() => {
    const rests = whole.hidden || source.readyState === 2;
    if (hasPulse && !rests && time() - heard > 5000) sayStale("nothing has come for 5 seconds.");
  }, 1000);
  on("visibilitychange", turn);
  offerPause(turn);
  begin();
  return () => {
    isOver = true;
    pause?.remove();
    leave();
  };
}

ready(whole);

// A job: its parts, as the server sends them. Of a page that is hidden the title alone is kept new.
const watched = one("[data-live]");
if (watched) {
  const known = new Map(all("[data-part]", watched).map((each) => [each.dataset.part, each]));
  const isOverview = known.has("head");
  const call = (says, icon) => {
    whole.title = says + " – prs";
    one("[rel=icon]").href = icon;
  };
  let tag = "";
  setInterval(async () => {
    if (!whole.hidden || isPaused || !isOverview || !known.size) return;
    try {
      const { ok, headers } = await fetch(page, { method: "HEAD", headers: { "if-none-match": tag } });
      if (!ok) return;
      tag = headers.get("etag");
      call(decodeURIComponent(headers.get("x-prs-title")), headers.get("x-prs-icon"));
    } catch {
      sayStale();
    }
  }, 60000);
  setInterval(() => {
    for (const each of known.values()) if (each.waiting) renew(each, ...each.waiting);
  }, 1000);
  const finish = stream(
    () => watched.dataset.live,
    {
      parts: ({ parts, title, icon }) => {
        for (const id in parts) if (known.has(id)) renew(known.get(id), parts[id]);
        if (title) call(title, icon);
        say("live");
      },
      end: async () => {
        finish();
        watched.removeAttribute("data-live");
        say("ended", "The job has ended.");
        // What may be done now is another thing than before.
        const found = await ask(page + location.search);
        for (const [id, each] of known) each.replaceChildren(...(one(`[data-part=${id}]`, found)?.childNodes || []));
        known.clear();
      },
    },
    isOverview,
  );
}

// The tables of pictures, which come when they are opened. The address says which are.
on("toggle", ({ target: box }) => {
  const id = box.dataset.table;
  if (!id) return;
  const opened = all("[data-table][open]").map((each) => "table=" + each.dataset.table).join("&");
  history.replaceState(null, "", page + (opened && "?" + opened) + location.hash);
  const put = (...content) => box.replaceChildren(box.firstChild, ...content);
  const load = async () => {
    try {
      put(await ask(`${page}/part/table-${id}`));
    } catch (why) {
      const again = make("button", { type: "button", textContent: "Try again", onclick: load });
      put(`Could not be loaded: ${why.message ? "the server does not answer" : why}. `, again);
    }
  };
  if (box.open && !one("table", box)) load();
});

// A list: rows change in their places, and new jobs wait until the reader asks for them.
const listed = one("[data-rows]");
if (listed) {
  const newer = one("[data-newer]");
  const others = new Set();
  const row = (address, within) => one(`tbody a[href="${address}"]`, within)?.closest("tr");
  const pace = 1000 * (listed.dataset.every || 15);
  let due = time() + pace;
  const touch = ({ job_id }) => {
    if (row("/jobs/" + job_id, listed)) due = 0;
    else others.add(job_id);
    newer.hidden = !others.size;
    write(newer, "Other jobs, new or changed: " + others.size);
  };
  if (newer) stream(() => "/api/v1/events?types=job", { list: () => (due = 0), job: touch, gone: touch });
  else offerPause();
  setInterval(async () => {
    if (whole.hidden || isPaused || time() < due) return;
    due = time() + pace;
    try {
      const found = await ask(listed.dataset.rows);
      if (!newer && !isBusy(listed)) listed.replaceChildren(found);
      for (const each of newer ? all("tbody tr", listed) : []) {
        const made = row(one("a", each).getAttribute("href"), found);
        if (!made || made.innerHTML === each.innerHTML || each.matches(":hover,:focus-within")) continue;
        const mark = one("input", made);
        if (mark) mark.checked = one("input", each).checked;
        each.replaceWith(made);
      }
      say("live");
    } catch {
      sayStale();
    }
  }, 1000);
}

// A log that grows: what is new stands at its end, as long as that is in sight.
const follower = one("[data-follow]");
if (follower) {
  const log = one("[data-lines]");
  const more = one("[data-more]");
  const depth = () => whole.documentElement.scrollHeight;
  let { at } = follower.dataset;
  let finish, pending;
  const add = () => {
    // What had no end yet comes once more.
    one("#b" + at)?.remove();
    for (const each of pending) log.append(parsed(each.html));
    at = pending.at(-1)?.at || at;
    while (log.childElementCount > 2000) log.firstElementChild.remove();
    more.hidden = true;
    pending = [];
    scrollTo(0, depth());
  };
  const turn = () => {
    write(follower, finish ? "Follow" : "Stop following");
    if (finish) return (finish = finish());
    pending = [];
    add();
    finish = stream(() => follower.dataset.follow + "&at=" + (pending.at(-1)?.at || at), {
      lines: (data) => {
        const isAtEnd = innerHeight + scrollY >= depth() - 40;
        pending.push(data);
        more.hidden = false;
        write(more, pending.reduce((sum, each) => sum + each.count, 0) + " new lines");
        if (isAtEnd) add();
      },
      end: () => {
        turn();
        follower.remove();
      },
    });
  };
  more.onclick = add;
  follower.hidden = false;
  follower.onclick = () => {
    if (follower.dataset.end) location = follower.dataset.end;
    else turn();
  };
  if (location.hash === "#follow") turn();
}

// The page behind a link that logs in presses its own button: a program that only looks at links does not.
one("[data-press]")?.requestSubmit();

// The places of a picture, row by row: what each says, where it leads, and where it is on the screen.
function placesOf(box) {
  const { walk, from, step, open, unit, words, cells } = box.dataset;
  if (!cells) {
    const found = {};
    for (const each of all("rect:has(title),use:has(title)", box)) {
      const phrase = one("title", each).textContent;
      const place = { said: phrase, at: () => placeOf(each), to: open && open + "/" + phrase.match(/\d+/) };
      (found[walk === "bars" ? each.getAttribute("y") : 0] ??= []).push(place);
    }
    return Object.values(found).map((row) => row.sort((a, b) => a.at().left - b.at().left));
  }
  const word = words && Object.fromEntries(words.split(";").map((each) => [each[0], each.slice(1)]));
  const stamp = (at) => new Date(at * 1000).toISOString();
  return cells.split("\n").map((line, row, { length: high }) => {
    const [label, query, marks] = line.split("\t");
    return (word ? [...marks] : marks.split(" ")).map((value, column, { length: wide }) => {
      const begin = +from + column * step;
      const until = begin + +step;
      const isTime = walk === "time";
      const where = isTime ? moment(begin * 1000, "00:00:00 UTC") : begin + (step > 1 ? " to " + (until - 1) : "");
      const range = isTime ? `from=${stamp(begin)}&to=${stamp(until)}` : `index=${begin}-${until - 1}`;
      const at = () => {
        const { left, top, width, height } = placeOf(one("[data-grid]", box));
        return new DOMRect(left + (width * column) / wide, top + (height * row) / high, width / wide, height / high);
      };
      return { said: `${label} ${where}: ${word ? word[value] : value + unit}`, at, to: open && `${open}?${query}&${range}` };
    });
  });
}

// Rows down and columns to the right.
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e9], End: [0, 1e9] };

// Goes where a key says and shows what is there; the address of what is there, for Enter.
function move(box, lanes, key) {
  const [row, column] = box.here || [0, -1];
  const current = lanes[row]?.[column];
  if (!MOVES[key]) return current?.to;
  const [down, along] = MOVES[key];
  const to = between(row + down, lanes.length - 1);
  if (!lanes[to]) return;
  let at = between(column + along, lanes[to].length - 1);
  if (current && down) {
    const far = lanes[to].map((each) => Math.abs(each.at().left - current.at().left));
    at = far.indexOf(Math.min(...far));
  }
  box.here = [to, at];
  const mark = one(".mark", box) || box.appendChild(make("span", { className: "mark" }));
  const around = placeOf(box);
  const { left, top, width, height } = lanes[to][at].at();
  mark.style.cssText = `left:${left - around.left}px;top:${top - around.top}px;width:${width}px;height:${height}px`;
  write(one(".said", box), lanes[to][at].said);
}

// Pictures: arrows walk their cells and marks, what is there is read out, Enter and a click open it.
function go(box, pick) {
  const to = pick((box.places ??= placesOf(box)));
  if (to) location = to;
}

async function toClipboard(phrase) {
  await navigator.clipboard.writeText(phrase);
  tell("Copied: " + phrase);
}

on("click", ({ target, clientX, clientY }) => {
  const button = target.closest("[data-copy]");
  const box = target.closest("[data-walk][data-open]");
  const isThere = ({ at }) => {
    const { left, right, top, bottom } = at();
    return clientX >= left && clientX < right && clientY >= top && clientY < bottom;
  };
  if (button) toClipboard(button.dataset.copy);
  else if (box) go(box, (lanes) => lanes.flat().find(isThere)?.to);
});

// Single letters, outside fields; an element names its own as data-key.
function stepRows(by) {
  const lanes = all("main tbody tr:has(a)");
  const at = lanes.findIndex((each) => each.contains(whole.activeElement));
  const to = lanes[between(at + by, lanes.length - 1)];
  if (to) one("a", to).focus();
}

let errorAt = -1;
const ACTS = {
  j: () => stepRows(1),
  k: () => stepRows(-1),
  x: () => one("tr:focus-within input")?.click(),
  e: () => {
    const lines = all(".l");
    errorAt = lines.findIndex((each, at) => at > errorAt && /error|exception|traceback|critical|fatal/i.test(each.textContent));
    if (errorAt < 0) tell("No further error in this window.");
    else location.hash = lines[errorAt].id;
  },
  c: () => toClipboard(location.href),
};

let wanted;
on("keydown", (press) => {
  const { key, target } = press;
  const box = target.closest("[data-walk]");
  if (box && /^(Arrow|Home|End|Enter)/.test(key)) {
    press.preventDefault();
    return go(box, (lanes) => move(box, lanes, key));
  }
  if (look.keys || press.ctrlKey || press.metaKey || press.altKey || target.closest("input:not([type=checkbox]),textarea,select")) return;
  const named = one(`[data-key="${CSS.escape((wanted === "g" ? "g" : "") + key)}"]`) || (/^[1-8]$/.test(key) && all(".tabs a")[key - 1]);
  wanted = key;
  if (named) {
    press.preventDefault();
    named.focus();
    if (!named.matches("input")) named.click();
  } else ACTS[key]?.();
});
