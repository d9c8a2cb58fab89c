// Private records: hardware that you own, rents and machines quoted to you.
import { get, send } from "../api.js";
import { during, element, section, show, table, words } from "../dom.js";
import { choice, dropBox, field, form, hardware, input, number, values, view } from "../kit.js";
import { named, quantityName, typeOf } from "../names.js";

// Paths of the records of each kind, the fields of the form, and an example of a CSV table.
const COMMON = [["name", "Name", input], ["accelerator", "Accelerator", hardware], ["system", "Or a machine of the catalog", input]];
const KINDS = {
  inventory: { title: "Hardware that you own", read: "/catalog/inventory", write: "/catalog/inventory", fields: [...COMMON, ["count", "Number of accelerators or machines", number], ["free", "Of these, free now", number], ["place", "Location", input]], csv: "name,accelerator,count,free,place\nrack 4,a6000,8,4,Berlin" },
  offers: { title: "Rents quoted to you", read: "/catalog/offers/own", write: "/catalog/offers", fields: [...COMMON, ["seller", "Seller", input], ["usd_per_hour", "USD per hour", number], ["accelerators", "Accelerators of the instance", number], ["valid_until", "Valid until", (n) => input(n, { type: "date" })]], csv: "name,seller,accelerator,accelerators,usd_per_hour\nframe contract,Example Cloud,h100 sxm,8,16.4" },
  systems: { title: "Machines quoted to you", read: "/catalog/systems/own", write: "/catalog/systems", fields: [...COMMON, ["seller", "Seller", input], ["usd", "USD per machine", number], ["accelerators", "Accelerators of the machine", number], ["valid_until", "Valid until", (n) => input(n, { type: "date" })]], csv: "name,seller,accelerator,accelerators,usd\nquote 1741,Example Systems,h200 sxm,8,285000" },
};
const held = element("div", {});
const kinds = choice("kind", Object.entries(KINDS).map(([name, { title }]) => [name, title]), { change: () => draw() });

// The version of the list, which a change must name.
const version = async (kind) => (await send("GET", kind.read)).etag;

async function records(kind) {
  const { items } = await get(kind.read);
  await named;
  if (!items.length) return element("p", {}, "Nothing is stored.");
  const names = [...new Set(items.flatMap(Object.keys))].filter((n) => n !== "name");
  const cell = (value) => (value === undefined || value === null ? null : typeof value === "number" ? value : Array.isArray(value) ? value.join(", ") : typeOf(String(value)));
  const remove = (name) => element("button", { type: "button", "aria-label": `Delete ${name}`, click: () => during(listed, async () => (await send("DELETE", `${kind.write}${kind.read.endsWith("/own") ? "/own" : ""}?name=${encodeURIComponent(name)}`, { match: await version(kind) }), records(kind))) }, "Delete");
  return table(["Name", ...names.map(quantityName), ""], items.map((i) => [i.name, ...names.map((n) => cell(i[n])), remove(i.name)]), kind.title);
}

async function store(kind, body, type, dry) {
  const { body: report } = await send("POST", `${kind.write}${dry ? "?dry_run=true" : ""}`, { body, type, match: await version(kind) });
  if (!dry) await during(listed, () => records(kind));
  return [element("p", { class: report.refused ? "warning" : "summary" }, dry ? `Checked: ${report.refused} of ${report.lines.length} records would be refused. Nothing is stored.` : `Stored: ${show(report.stored)} ${report.stored === 1 ? "record" : "records"}.`),
    table(["Line", "Name", "What happens", "Errors"], report.lines.map((l) => [String(l.line), l.name ?? "", words(l.action ?? "refused"), (l.errors ?? []).map((e) => e.detail ?? e).join(" ")]), "Records")];
}

const listed = element("div", { "aria-live": "polite" });

function draw() {
  const kind = KINDS[kinds.value];
  const result = element("div", { "aria-live": "polite" });
  const single = form(kind.fields.map(([name, label, control]) => field(label, control(name))), (made) => during(result, () => store(kind, values(made), "application/json", false)), "Store");
  const box = dropBox("CSV table, with the field names in its first line", { rows: 5, placeholder: kind.csv });
  const several = (dry) => during(result, () => store(kind, box.text.value, "text/csv", dry));
  const pasted = element("details", {}, element("summary", {}, "Store several from a CSV table"), box.made, element("p", { class: "buttons" }, element("button", { type: "button", click: () => several(true) }, "Check"), element("button", { type: "button", click: () => several(false) }, "Store all")));
  held.replaceChildren(section(kind.title, listed), section("Add", single, pasted, result));
  during(listed, () => records(kind));
}

view.replaceChildren(element("p", {}, "Storing needs a key with the scope catalog:write (", element("a", { href: "/guide/operating" }, "how to create one"), "). Sign in at the top right. To use hardware in one answer without storing it, enter it on the ", element("a", { href: "/" }, "sizing page"), "."), field("Show", kinds), held);
addEventListener("headroom:key", draw);
draw();
