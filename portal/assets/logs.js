// Follows a log that grows: what is new stands at its end, as long as that is in sight. It is fetched where there is one.

const MOST = 2000;

export function begin(follow, one) {
  const lines = one("[data-lines]");
  const more = one("[data-more]");
  const { path } = follow.dataset;
  let at = Number(follow.dataset.at);
  let timer = 0;
  let idle = 0;
  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
  const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);
  const add = (found) => {
    for (const line of found.lines) {
      const each = document.createElement("span");
      each.className = "l";
      each.id = "b" + line.offset;
      each.textContent = line.text + "\n";
      lines.append(each);
    }
    while (lines.childElementCount > MOST) lines.firstElementChild.remove();
    at = found.to;
    more.hidden = true;
    toEnd();
  };
  const fetched = async (address) => (await fetch(address)).json();
  const search = async () => {
    if (document.hidden) return;
    try {
      const found = await fetched(`${follow.dataset.follow}/log-lines?${new URLSearchParams({ path, at })}`);
      idle = found.lines.length ? 0 : idle + 1;
      if (found.lines.length && isAtEnd()) add(found);
      else if (found.lines.length) {
        more.hidden = false;
        more.textContent = found.lines.length + (found.at_end ? "" : " or more") + " new lines";
        more.onclick = () => add(found);
      }
      // Of a job that has ended nothing is asked any more.
      if (idle % 15 === 14 && (await fetched(follow.dataset.follow + "?fields=ended_at")).ended_at && timer) turn();
    } catch {
      // The next look may succeed.
    }
  };
  const turn = () => {
    clearInterval(timer);
    timer = timer ? 0 : setInterval(search, 1000);
    follow.textContent = timer ? "Stop following" : "Follow";
    if (timer) toEnd();
  };
  follow.hidden = false;
  follow.addEventListener("click", () => {
    if (follow.dataset.end) location = follow.dataset.end;
    else turn();
  });
  if (location.hash === "#follow") turn();
}
