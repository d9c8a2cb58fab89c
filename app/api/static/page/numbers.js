// Parses and formats numbers as users type them: 1,000,000,000; 1 trillion; 70b; 1e9; 5k.

const SCALES = {
  k: 1e3, thousand: 1e3, m: 1e6, mio: 1e6, million: 1e6, b: 1e9, bn: 1e9, g: 1e9, billion: 1e9, t: 1e12, tn: 1e12, trillion: 1e12,
};

// Formats a number for an input field, with words for millions and more if no digit is lost.
export function written(value) {
  const grouped = value.toLocaleString("en", { maximumFractionDigits: 6 });
  if (Math.abs(value) < 1e7) return grouped;
  const spoken = value.toLocaleString("en", { notation: "compact", compactDisplay: "long", maximumFractionDigits: 3 });
  return read(spoken) === value ? spoken : grouped;
}

// The number, or NaN for any other text. A comma or a space between digits groups thousands.
export function read(text) {
  const cleaned = text.trim().toLowerCase().replace(/(\d)[\s,_'](?=\d{3}(\D|$))/g, "$1");
  const found = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*|%)$/.exec(cleaned);
  if (!found) return NaN;
  const [, digits, scale] = found;
  if (scale === "%") return Number(digits) / 100;
  if (scale && !(scale in SCALES)) return NaN;
  // Rounding to 15 digits keeps 0.3 million exact.
  return scale ? Number((Number(digits) * SCALES[scale]).toPrecision(15)) : Number(digits);
}
