// Accelerators by the names they are sold under; until those are read, or where one is missing, by the catalogue's key.
import { get } from "./api.js";

const NAMES = new Map();

async function read() {
  let after = "";
  do {
    const page = await get(`/catalog/accelerators?limit=200${after}`);
    for (const { slug, name } of page.items) NAMES.set(slug, name);
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
}

// Settled once the names are read, or cannot be.
export const named = read().catch(() => null);

export const typeOf = (accelerator) => NAMES.get(accelerator) ?? accelerator;
