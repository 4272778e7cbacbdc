// Walks pictures with the keys, cell by cell and mark by mark. It is fetched when a picture is first used.

// The places of a picture, row by row: what each says, where it leads, and where it is on the screen.
export function places(box, { one, all, moment }) {
  const { walk, from, step, open, unit, words, cells } = box.dataset;
  if (!cells) {
    const found = {};
    for (const each of all("rect:has(title),use:has(title)", box)) {
      const text = one("title", each).textContent;
      const at = () => each.getBoundingClientRect();
      (found[walk === "bars" ? each.getAttribute("y") : 0] ??= []).push({ text, at, to: open && open + "/" + text.match(/\d+/) });
    }
    return Object.values(found).map((row) => row.sort((a, b) => a.at().left - b.at().left));
  }
  const grid = one("[data-grid]", box);
  const word = words && Object.fromEntries(words.split(";").map((each) => [each[0], each.slice(1)]));
  const stamp = (at) => new Date(at * 1000).toISOString();
  return cells.split("\n").map((line, row, { length: high }) => {
    const [name, query, values] = line.split("\t");
    return (word ? [...values] : values.split(" ")).map((value, column, { length: wide }) => {
      const begin = +from + column * step;
      const end = begin + +step;
      const isTime = walk === "time";
      const where = isTime ? moment(new Date(begin * 1000), "00:00:00 UTC") : begin + (step > 1 ? " to " + (end - 1) : "");
      const range = isTime ? `from=${stamp(begin)}&to=${stamp(end)}` : `index=${begin}-${end - 1}`;
      const at = () => {
        const { left, top, width, height } = grid.getBoundingClientRect();
        return new DOMRect(left + (width * column) / wide, top + (height * row) / high, width / wide, height / high);
      };
      return { text: `${name} ${where}: ${word ? word[value] : value + unit}`, to: open && `${open}?${query}&${range}`, at };
    });
  });
}

const between = (number, most) => Math.max(0, Math.min(number, most));

// Rows down and columns to the right.
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e9], End: [0, 1e9], Enter: [0, 0] };

// Goes where a key says and shows what is there; the address to open, where that is wanted.
export function move(box, places, key) {
  if (!places.length) return "";
  const [down, right] = MOVES[key];
  const here = box.here && places[box.here[0]][box.here[1]];
  if (key === "Enter") return here && here.to;
  const row = here ? between(box.here[0] + down, places.length - 1) : 0;
  let column = between(here ? box.here[1] + right : right, places[row].length - 1);
  if (here && down && !box.dataset.cells) {
    const far = places[row].map((each) => Math.abs(each.at().left - here.at().left));
    column = far.indexOf(Math.min(...far));
  }
  const found = places[row][column];
  let mark = box.querySelector(".mark");
  if (!mark) {
    mark = document.createElement("span");
    mark.className = "mark";
    box.append(mark);
  }
  const [at, around] = [found.at(), box.getBoundingClientRect()];
  mark.style.left = at.left - around.left - 2 + "px";
  mark.style.top = at.top - around.top - 2 + "px";
  mark.style.width = Math.max(at.width, 2) + 4 + "px";
  mark.style.height = Math.max(at.height, 2) + 4 + "px";
  box.here = [row, column];
  box.querySelector(".said").textContent = found.text;
  return "";
}

// The address of what is under the pointer.
export function under(places, { clientX, clientY }) {
  const isThere = ({ at }) => {
    const { left, right, top, bottom } = at();
    return clientX >= left && clientX < right && clientY >= top && clientY < bottom;
  };
  return places.flat().find(isThere)?.to;
}
