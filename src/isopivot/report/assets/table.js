// The table of all rows: sort, filter, pages, and a file to take away.

const PAGE = 25;
const table = data.table;
const columns = [
  { title: "row", values: table.names, words: true },
  { title: "rate", values: table.rate },
  { title: "verdict", values: table.normal.map((normal) => (normal ? "normal" : "above threshold")), words: true },
  { title: "dictionary", values: table.rank },
];
const [verdict, place] = [columns[2], columns[3]];
if (data.labels) columns.push({ title: "label", values: data.labels.texts, words: true });
table.coordinates.forEach((values, k) => columns.push({ title: table.coordinateNames[k], values }));

const RATE = 1;
const state = { column: RATE, descending: true, page: 0, rows: [] };
const natural = new Intl.Collator("en", { numeric: true });

function compare(values, words) {
  return words
    ? (a, b) => natural.compare(values[a], values[b])
    : (a, b) => values[a] - values[b];
}

function wanted() {
  const text = byId("search").value.trim().toLowerCase();
  const show = byId("show").value;
  const kinds = {
    all: () => true,
    odd: (row) => !table.normal[row],
    normal: (row) => table.normal[row],
    dictionary: (row) => table.rank[row] > 0,
  };
  return function (row) {
    if (!kinds[show](row)) return false;
    const label = data.labels ? "\n" + data.labels.texts[row] : "";
    return (table.names[row] + label).toLowerCase().includes(text);
  };
}

function arrange() {
  const column = columns[state.column];
  const rows = table.names.map((_, row) => row).filter(wanted());
  const order = compare(column.values, column.words);
  rows.sort((a, b) => (state.descending ? order(b, a) : order(a, b)) || a - b);
  if (column === place) {
    // Rows outside the dictionary come last, whichever way it is sorted.
    rows.sort((a, b) => (table.rank[a] > 0 ? 0 : 1) - (table.rank[b] > 0 ? 0 : 1));
  }
  state.rows = rows;
  state.page = 0;
  drawTable();
}

function cellText(column, row) {
  const value = column.values[row];
  if (column.words) return value;
  if (column === place) return value ? "no. " + value : "";
  return shown(value);
}

function cellClass(column, row) {
  if (column !== verdict) return column.words ? "words-in" : "";
  return table.normal[row] ? "words-in verdict" : "words-in verdict over";
}

function drawTable() {
  const first = state.page * PAGE;
  const body = state.rows.slice(first, first + PAGE).map(function (row) {
    const line = element("tr");
    columns.forEach(function (column) {
      line.append(element("td", cellClass(column, row), cellText(column, row)));
    });
    return line;
  });
  byId("cells").replaceChildren(...body);
  const total = state.rows.length;
  byId("status").textContent = total
    ? (first + 1).toLocaleString("en") + " to " + Math.min(first + PAGE, total).toLocaleString("en") + " of " + count(total, "row")
    : "no row fits";
  byId("previous").disabled = first === 0;
  byId("next").disabled = first + PAGE >= total;
  columns.forEach(function (column, k) {
    const sorted = k === state.column ? (state.descending ? "descending" : "ascending") : "none";
    column.header.setAttribute("aria-sort", sorted);
  });
}

function sortBy(k) {
  const again = k === state.column;
  state.descending = again ? !state.descending : k === RATE;
  state.column = k;
  arrange();
}

// A spreadsheet would run text that begins like a formula.
function csvCell(value, words) {
  if (!words) return value === null ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
}

function csv() {
  const lines = [columns.map((column) => csvCell(column.title, true)).join(",")];
  state.rows.forEach(function (row) {
    lines.push(columns.map((column) => csvCell(column.values[row], column.words)).join(","));
  });
  return lines.join("\r\n") + "\r\n";
}

function download() {
  // The mark at the start tells spreadsheets that this is UTF-8.
  const blob = new Blob(["\ufeff", csv()], { type: "text/csv;charset=utf-8" });
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = "isopivot-rows.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function startTable() {
  columns.forEach(function (column, k) {
    column.header = element("th", column.words ? "words-in" : "");
    column.header.scope = "col";
    const button = element("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => sortBy(k));
    column.header.append(button);
    byId("headers").append(column.header);
  });
  byId("search").addEventListener("input", arrange);
  byId("show").addEventListener("change", arrange);
  byId("download").addEventListener("click", download);
  byId("previous").addEventListener("click", () => { state.page -= 1; drawTable(); });
  byId("next").addEventListener("click", () => { state.page += 1; drawTable(); });
  arrange();
}
