// Links that contain a request, and the recent requests stored in this browser.
import { nameOf } from "./deployment.js";
import { element } from "./dom.js";

const KEPT = "headroom.questions";
const MOST = 20;

export const linkTo = (request) => `#q=${encodeURIComponent(JSON.stringify(request))}`;

// The request or the stored answer that the address names, or that it cannot be read.
export function linked() {
  const [kind, value] = [location.hash.slice(1, 3), location.hash.slice(3)];
  try {
    if (kind === "q=") return { request: JSON.parse(decodeURIComponent(value)) };
  } catch {
    return { unreadable: true };
  }
  return kind === "a=" ? { answer: value } : {};
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? [];
  } catch {
    return [];
  }
}

export function keep(answer, request) {
  const [first] = answer.recommendations;
  const text = `${typeof request.workload.model === "string" ? request.workload.model : "own model"}, ${request.workload.phase.replace("_", " ")}: ${first ? nameOf(first) : "no solution"}`;
  const link = linkTo(request);
  try {
    localStorage.setItem(KEPT, JSON.stringify([{ text, link }, ...kept().filter((k) => k.link !== link)].slice(0, MOST)));
  } catch {
    // The page also works if the browser stores nothing.
  }
}

export function showPast(into) {
  into.replaceChildren(...kept().map((k) => element("li", {}, element("a", { href: k.link }, k.text))));
  into.closest("details").hidden = !into.children.length;
}

// The recent requests of this browser and the examples: [name, request].
export function requests(examples) {
  const recent = kept().map((k) => [k.text, JSON.parse(decodeURIComponent(k.link.slice(3)))]);
  return [...recent, ...examples.map(({ name, request }) => [`Example: ${name}`, request])];
}
