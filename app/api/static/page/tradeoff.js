// Shows all feasible options as a plot of cost against latency and as a sortable table. One option is selected in both.
import { figure, frame, legendOf, place, scale, widthWithin } from "./charts.js";
import { counted, nameOf, sellerOf } from "./deployment.js";
import { about, drawn, element, money, show, wide, words } from "./dom.js";
import { chanceOf, chanceText, lasting, plannedCost, speedOf } from "./figures.js";
import { called, labelOf } from "./names.js";

export const isRun = (r) => r.performance.days !== undefined;
const picked = ({ low, high } = {}) => (low === undefined ? {} : { low, high });
// The cost by which options rank.
const price = (r) => (r.cost.usd_total ? { value: plannedCost(r), unit: plannedCost(r) > r.cost.usd_total ? `USD for the run at ${show(100 * r.confidence.asked)} % certainty` : "USD for the run" } : { value: r.cost.usd_per_hour, unit: "USD per hour" });

// The latency that matters: per token, per request, or the duration of the run; with its interval if available.
function wait(r, hours) {
  const p = r.performance;
  const interval = (quantity) => picked((p.intervals ?? []).find((i) => i.quantity === quantity));
  if (isRun(r)) {
    const { low, high } = interval("days");
    const by = hours ? 24 : 1;
    return { value: p.days * by, unit: hours ? "hours" : "days", name: "Duration", ...(low === undefined ? {} : { low: low * by, high: high * by }) };
  }
  if (p.tpot_ms?.p50) return { value: p.tpot_ms.p50, unit: "ms per token", name: "Time per token, median", ...interval("tpot_ms") };
  if (p.e2e_ms) return { value: p.e2e_ms.p50, unit: "ms", name: "Time per request, median", ...interval("e2e_ms") };
  return { value: null, unit: "", name: "" };
}

function paretoOf(points) {
  let best = Infinity;
  return [...points].sort((a, b) => a.x - b.x || a.y - b.y).filter((p) => p.y < best && ((best = p.y), true));
}

// Points of the plot, from the shortest latency to the longest.
function pointsOf(options) {
  const hours = options.some(({ r }) => r.performance.days < 2);
  return options.map((option, index) => ({ ...option, index, w: wait(option.r, hours) })).filter(({ r, w }) => w.value > 0 && price(r).value > 0)
    .map(({ r, w, index }) => ({ r, index, x: w.value, y: price(r).value, low: w.low ?? w.value, high: w.high ?? w.value, w })).sort((a, b) => a.x - b.x);
}

const describe = (p) => `${nameOf(p.r)}: ${money(p.y)} ${price(p.r).unit.replace("USD ", "")}, ${about(p.x)} ${p.w.unit}${p.high > p.low ? ` (80 % interval ${about(p.low)} to ${about(p.high)})` : ""}`;

// A name above or below its point, to its right or left, where it covers no other point or name; otherwise none.
function labels(front, points, x, y, width) {
  const taken = points.map((p) => ({ from: x.at(p.x) - 6, to: x.at(p.x) + 6, y: y.at(p.y) + 4 }));
  const free = (box) => box.from > place.left && box.to < width && box.y > place.top && box.y < place.height - place.bottom && taken.every((t) => Math.abs(t.y - box.y) > 13 || t.from > box.to || box.from > t.to);
  return front.flatMap((p) => {
    const text = labelOf(p.r.deployment.accelerator ?? "two pools");
    const [long, at] = [7.2 * text.length, x.at(p.x)];
    const box = [-10, 18].flatMap((up) => [{ from: at + 7, to: at + 7 + long }, { from: at - 7 - long, to: at - 7, end: true }].map((side) => ({ ...side, y: y.at(p.y) + up }))).find(free);
    if (!box) return [];
    taken.push(box);
    return [drawn("text", { x: box.end ? box.to : box.from, y: box.y, "text-anchor": box.end ? "end" : "start", class: "marked" }, text)];
  });
}

function cloud(options, choose) {
  const points = pointsOf(options);
  if (points.length < 2) return null;
  const width = widthWithin(900);
  const x = scale(points.flatMap((p) => [p.low, p.high]), place.left, width - place.right, { log: true });
  const y = scale(points.map((p) => p.y), place.height - place.bottom, place.top, { log: true });
  const front = paretoOf(points);
  const [{ w, r }] = points;
  const detail = element("p", { class: "detail", "aria-hidden": "true" });
  const cross = drawn("path", { class: "cross" });
  const dots = points.map((p) => drawn("circle", { cx: x.at(p.x), cy: y.at(p.y), r: 6, role: "radio", tabindex: -1, "aria-checked": "false", "aria-label": describe(p), class: front.includes(p) ? "fill-1" : "fill-0", "data-index": p.index }));
  const point = (p) => {
    detail.textContent = describe(p);
    cross.setAttribute("d", `M${place.left} ${y.at(p.y)}H${width - place.right}M${x.at(p.x)} ${place.top}V${place.height - place.bottom}`);
  };
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${place.height}`, role: "radiogroup", "aria-label": `Options by ${w.name.toLowerCase()} and price; use the arrow keys to select one` },
    frame(x, y, width, { xLabel: `${w.name}, ${w.unit}`, yLabel: price(r).unit, xText: about }), cross,
    drawn("polyline", { points: front.map((p) => `${x.at(p.x)},${y.at(p.y)}`).join(" "), class: "line stroke-1" }),
    ...points.map((p) => drawn("line", { x1: x.at(p.low), x2: x.at(p.high), y1: y.at(p.y), y2: y.at(p.y), class: "whisker stroke-0" })),
    ...labels(front, points, x, y, width), ...dots);
  const near = ({ target }) => points[dots.indexOf(target)];
  for (const kind of ["pointerover", "focusin"]) picture.addEventListener(kind, (event) => near(event) && point(near(event)));
  picture.addEventListener("pointerout", () => point(points[dots.findIndex((d) => d.getAttribute("aria-checked") === "true")] ?? points[0]));
  picture.addEventListener("click", (event) => near(event) && choose(near(event).index));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const from = dots.indexOf(event.target);
    if (!step || from < 0) return;
    event.preventDefault();
    const next = (from + step + dots.length) % dots.length;
    choose(points[next].index);
    dots[next].focus();
  });
  const legend = legendOf([points.some((p) => p.high > p.low) ? "option with 80 % interval" : "option", "Pareto front: no option is cheaper and faster"]);
  const rows = points.map((p) => [nameOf(p.r), p.x, p.low, p.high, money(p.y)]);
  const made = figure(`Cost against ${isRun(r) ? "duration" : "latency"}`, element("div", {}, picture, detail), ["Hardware", w.unit, "low", "high", price(r).unit], rows, legend);
  const mark = (index) => {
    const at = Math.max(0, points.findIndex((p) => p.index === index));
    dots.forEach((dot, i) => {
      dot.setAttribute("aria-checked", points[i].index === index);
      dot.setAttribute("tabindex", i === at ? 0 : -1);
    });
    point(points[at]);
  };
  return { made, mark };
}

// Columns of the table: name, value to sort by, text, and whether it is shown at first.
const COLUMNS = [
  { name: "Offer", of: sellerOf, first: true },
  { name: "USD/h", of: (r) => r.cost.usd_per_hour, text: money, first: true },
  { name: "Run cost", of: (r) => r.cost.usd_total, text: money, first: true },
  { name: "At certainty", of: (r) => (r.cost.usd_total ? plannedCost(r) : null), text: money, first: true },
  { name: "Per month", of: (r) => (r.cost.usd_total ? null : r.cost.usd_per_month), text: money, first: false },
  { name: "Per day", of: (r) => r.cost.usd_per_day, text: money, first: true },
  { name: "Purchase", of: (r) => r.cost.purchase_usd, text: money, first: false },
  { name: "Speed", of: (r) => speedOf(r), text: about, first: false },
  { name: "TTFT p95, ms", of: (r) => r.performance.ttft_ms?.p95, text: about, first: true },
  { name: "TPOT p95, ms", of: (r) => r.performance.tpot_ms?.p95, text: about, first: true },
  { name: "Request p95, ms", of: (r) => r.performance.e2e_ms?.p95, text: about, first: false },
  { name: "Duration", of: (r) => r.performance.days, text: lasting, first: true },
  { name: "Certainty", of: (r) => chanceOf(r), text: chanceText, first: true },
  { name: "Software", of: (r) => called(r.deployment.engine ?? r.deployment.framework ?? "two pools"), first: false },
  { name: "Bottleneck", of: (r) => words(r.bottleneck), first: false },
  { name: "Power, kW", of: (r) => r.cost.power_kw, text: show, first: false },
];

// Choices of the reader, kept while answers change.
const view = { by: null, down: false, hidden: new Set(COLUMNS.filter((c) => !c.first).map((c) => c.name)) };

const compare = (a, b) => (a === null ? 1 : b === null ? -1 : typeof a === "string" ? a.localeCompare(b) : a - b);

function sorted(options) {
  const column = COLUMNS.find((c) => c.name === view.by);
  const rows = options.map((option, index) => ({ ...option, index }));
  const value = (row) => (view.by === "Hardware" ? nameOf(row.r) : column?.of(row.r) ?? null);
  if (view.by) rows.sort((a, b) => (value(a) === null || value(b) === null ? 1 : view.down ? -1 : 1) * compare(value(a), value(b)));
  return rows;
}

function listed(options, choose) {
  const held = element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "All feasible options; use the arrow keys to move between rows" });
  const usable = COLUMNS.filter((c) => options.some(({ r }) => (c.of(r) ?? null) !== null));
  const ticked = new Set();
  let chosen = 0;
  // Only the row with the focus, or else the selected one, is in the tab order; the arrow keys move between rows.
  const reach = (active) => {
    for (const row of held.querySelectorAll("tbody tr")) for (const control of row.querySelectorAll("input, button")) control.tabIndex = row === active ? 0 : -1;
  };
  held.addEventListener("focusin", ({ target }) => target.closest("tbody tr") && reach(target.closest("tbody tr")));
  held.addEventListener("keydown", (event) => {
    const row = event.target.closest("tbody tr");
    const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    next.querySelector(event.target.localName).focus();
  });
  const draw = () => {
    const columns = usable.filter((c) => !view.hidden.has(c.name));
    const sort = (name) => {
      [view.down, view.by] = [view.by === name && !view.down, name];
      draw();
      held.querySelector(`[data-sort="${name}"]`).focus();
    };
    const head = (name, kind) => element("th", { scope: "col", class: kind, "aria-sort": view.by === name ? (view.down ? "descending" : "ascending") : null },
      element("button", { type: "button", class: "sort", "data-sort": name, click: () => sort(name) }, name, element("span", { "aria-hidden": "true" }, view.by === name ? (view.down ? " ▼" : " ▲") : "")));
    const row = ({ r, index }) => element("tr", { class: index === chosen ? "chosen" : null },
      element("td", {}, element("label", { class: "tick" }, element("input", { type: "checkbox", name: "compared", value: r.rank, checked: ticked.has(index), "aria-label": `Compare ${index + 1}. ${nameOf(r)}`, change: ({ target }) => ticked[target.checked ? "add" : "delete"](index) }), index + 1)),
      element("th", { scope: "row" }, element("button", { type: "button", class: "pick", "aria-pressed": String(index === chosen), click: () => choose(index) }, nameOf(r))),
      ...columns.map((c) => element("td", { class: c.text ? "number" : "text" }, (c.of(r) ?? null) === null ? "–" : c.text ? c.text(c.of(r)) : c.of(r))));
    const inside = held.contains(document.activeElement);
    const focused = document.activeElement?.textContent;
    const [left, top] = [held.scrollLeft, held.scrollTop];
    held.replaceChildren(element("table", {}, element("caption", {}, "All feasible options"), element("thead", {}, element("tr", {}, element("th", { scope: "col" }, element("span", { class: "unseen" }, "Compare, rank")), head("Hardware"), ...columns.map((c) => head(c.name, c.text ? "number" : "text")))), element("tbody", {}, ...sorted(options).map(row))));
    held.scrollTo(left, top);
    reach(held.querySelector(".chosen"));
    if (inside) [...held.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus({ preventScroll: true });
  };
  const tick = (c) => element("label", { class: "tick" }, element("input", { type: "checkbox", checked: !view.hidden.has(c.name), change: ({ target }) => {
    view.hidden[target.checked ? "delete" : "add"](c.name);
    draw();
  } }), c.name);
  const columns = element("details", {}, element("summary", {}, "Columns"), element("div", { class: "buttons" }, ...usable.map(tick)));
  draw();
  return { made: element("details", { class: "plain", open: wide.matches }, element("summary", {}, `Table of ${counted(options.length, "option")}`), held, columns), mark: (index) => ((chosen = index), draw()) };
}

// options: [{answer, r}], best first. Returns the section's content and the function that marks the selected option.
export function tradeoff(options, choose) {
  const views = [cloud(options, choose), listed(options, choose)].filter(Boolean);
  return { made: views.map((v) => v.made), mark: (index) => views.forEach((v) => v.mark(index)) };
}
