// Reading the data, and putting text into the page as text.

const data = JSON.parse(document.getElementById("data").textContent);

function byId(id) {
  return document.getElementById(id);
}

// 16-bit steps between two ends, little-endian.
function unpack(pack) {
  const bytes = atob(pack.data);
  const values = new Float64Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    const level = bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1);
    values[i] = pack.low + pack.step * level;
  }
  return values;
}

// Unpacked when first looked at: sixty pictures at once would take a while.
function lazily(packs) {
  const done = new Map();
  return function (i) {
    if (!done.has(i)) done.set(i, unpack(packs[i]));
    return done.get(i);
  };
}

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function shown(value) {
  return value === null ? "" : String(Number(value.toPrecision(6)));
}

function count(n, noun) {
  return n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");
}

// plotly reads a few tags and entities in texts; names are not meant to have any.
function plain(text, most) {
  const limit = most || 60;
  const cut = text.length > limit ? text.slice(0, limit - 1) + "…" : text;
  return cut.replace(/\s+/g, " ").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function press(chosen, other) {
  chosen.setAttribute("aria-pressed", "true");
  other.setAttribute("aria-pressed", "false");
}
