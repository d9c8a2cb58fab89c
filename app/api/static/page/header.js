// The header: the link of the current page in view, and the sign-in with the API key of this tab.
import { key } from "./api.js";

const held = document.getElementById("signin");
const out = held.querySelector("[type=button]");
const input = held.querySelector("input");
const status = held.querySelector("[role=status]");

// Not scrollIntoView, which would move the start of keyboard navigation behind the skip link.
const here = document.querySelector(".bar [aria-current]");
const links = here?.closest("nav");
if (links) links.scrollLeft = here.offsetLeft - links.offsetLeft - (links.clientWidth - here.offsetWidth) / 2;

const show = () => {
  held.querySelector("summary").textContent = key.get() ? "Signed in" : "Sign in";
  out.disabled = !key.get();
};

function change(text, notice) {
  key.set(text);
  input.value = "";
  status.textContent = notice;
  show();
  dispatchEvent(new Event("headroom:key"));
}

held.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (input.value.trim()) change(input.value.trim(), "This tab now sends the key.");
});
out.addEventListener("click", () => change("", "The key is gone from this tab."));
show();
