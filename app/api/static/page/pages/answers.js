// Stored answers: list and filter, approve, check against today's catalog, price again, delete.
import { get, save, send } from "../api.js";
import { during, element, list, money, section, table, words } from "../dom.js";
import { choice, field, form, input, values, view } from "../kit.js";
import { called, counts } from "../names.js";

const STATUSES = ["draft", "approved", "ordered", "superseded"];
const DONE = { draft: "Back to draft", approved: "Approve", ordered: "Mark as ordered", superseded: "Supersede" };
const found = element("div", {});
const detail = element("div", {});

const planText = (plan) => (plan ? `${counts(plan.option)} from ${called(plan.provider)}, ${plan.usd_total ? money(plan.usd_total) : `${money(plan.usd_per_hour)}/h`}` : "no longer offered");

// The first option of an answer; an answer without options may have a mixed fleet, whose rank is 0.
async function rankOf(id) {
  const { recommendations, mixed_fleet } = await get(`/recommendations/${id}`);
  return !recommendations.length && mixed_fleet ? 0 : 1;
}

async function standing(id) {
  const now = await get(`/recommendations/${id}/standing?rank=${await rankOf(id)}`);
  return [element("p", { class: now.holds ? "summary" : "warning" }, now.holds ? "The plan still holds." : "The plan no longer holds."), list(now.findings.map((f) => counts(f.text))),
    table(["Plan", "Offer"], [["As stored", planText(now.plan)], ["Today", planText(now.today)], ...(now.cheaper ? [["Cheaper today", planText(now.cheaper)]] : [])], "Plans")];
}

async function reprice(id) {
  const { machines, today } = (await send("POST", `/recommendations/${id}/reprice?rank=${await rankOf(id)}`)).body;
  const rows = (machines?.lines ?? []).map((l) => [(l.then ?? l.now).description, money(l.then?.line_total), money(l.now?.line_total), money(l.difference), l.causes.map((c) => c.text).join(" ")]);
  return [element("p", { class: "summary" }, machines?.text ?? "Nothing was feasible when this answer was stored."), rows.length ? table(["Line", "Then", "Today", "Difference", "Cause"], rows, "Bill then and today") : null,
    element("p", {}, today.why.join(" "), " ", element("a", { href: `/#a=${today.id}` }, "Today's answer"))];
}

async function change(status, fields, id, etag) {
  const { by, note, superseded_by } = values(fields);
  await send("PATCH", `/recommendations/${id}`, { body: { status, by, note, ...(status === "superseded" ? { superseded_by } : {}) }, match: etag });
  await refresh();
  await open(id);
}

async function remove(id, etag) {
  await send("DELETE", `/recommendations/${id}`, { match: etag });
  detail.replaceChildren(element("p", { role: "status" }, "The answer is deleted."));
  await refresh();
}

async function about(id) {
  const filed = await get(`/recommendations/${id}/status`);
  const result = element("div", { "aria-live": "polite" });
  const doing = (task) => () => during(result, task);
  const fields = element("div", { class: "fields" }, field("Your name", input("by")), field("Note", input("note")), filed.next.includes("superseded") ? field("Replaced by (id)", input("superseded_by")) : null);
  const button = (name, task) => element("button", { type: "button", click: doing(task) }, name);
  return section(counts(filed.option ?? "Nothing feasible"),
    element("p", {}, `${filed.model ?? ""} `, element("code", {}, id), `: ${filed.status}. `, element("a", { href: `/#a=${id}` }, "Open the answer"), ", ", element("a", { href: `/recommendations/${id}/bill-of-materials?format=html`, click: save }, "printable memo"), "."),
    element("p", { class: "buttons" }, button("Check against today's catalog", () => standing(id)), button("Price again", () => reprice(id)), ["draft", "superseded"].includes(filed.status) ? button("Delete", () => remove(id, filed.etag)) : null),
    element("fieldset", {}, element("legend", {}, "Change the status"), fields, element("p", { class: "buttons" }, ...filed.next.map((s) => button(DONE[s], () => change(s, fields, id, filed.etag))))),
    filed.history.length ? table(["Status", "When", "Who", "Note"], filed.history.map((h) => [h.status, h.at.replace("T", " ").replace("Z", " UTC"), h.by, h.note ?? ""]), "History") : null, result);
}

async function open(id) {
  await during(detail, () => about(id));
  const heading = detail.querySelector("h2");
  heading?.setAttribute("tabindex", -1);
  heading?.focus(); // the next tab reaches its buttons
}

async function answers(asked, cursor) {
  const { items, next_cursor } = await get(`/recommendations?${new URLSearchParams({ limit: 25, ...asked, ...(cursor ? { cursor } : {}) })}`);
  if (!items.length) return element("p", {}, "No stored answer matches. Every answer of the sizing page is stored.");
  const rows = items.map((a) => [element("button", { type: "button", class: "pick", click: () => open(a.id) }, counts(a.option ?? "Nothing feasible")), a.model ?? "own model", a.label ?? a.reference ?? "", words(a.status), a.stored_at.replace("T", " ").replace("Z", "")]);
  return [table(["First option", "Model", "Label or reference", "Status", "Stored, UTC"], rows, "Stored answers"), next_cursor ? element("button", { type: "button", click: (event) => more(event.target, asked, next_cursor) }, "Show older answers") : null];
}

async function more(button, asked, cursor) {
  const held = element("div", {});
  button.replaceWith(held);
  await during(held, () => answers(asked, cursor));
}

const filter = form([
  field("Label", input("label")), field("Reference", input("reference")), field("Model", input("model")), field("Accelerator", input("accelerator")), field("Status", choice("status", [["", "any"], ...STATUSES])),
  field("Stored after", input("created_after", { type: "date" })),
], () => refresh(), "Search");
const refresh = () => during(found, () => answers(values(filter)));
filter.addEventListener("change", refresh);
addEventListener("headroom:key", refresh);
view.replaceChildren(filter, detail, found);
refresh();
const asked = new URLSearchParams(location.search).get("id");
if (asked) open(asked);
