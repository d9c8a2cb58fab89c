const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// An operation opens by its button. A link inside the button does not help keyboard users, so only tags keep their links.
const plainPaths = (system) => ({
  wrapComponents: {
    DeepLink: (Original) => (props) => (props.path?.includes("/") ? system.React.createElement("span", {}, props.text) : system.React.createElement(Original, props)),
  },
});

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [plainPaths],
  layout: "BaseLayout",
  deepLinking: true,
  validatorUrl: null,
});

// Makes examples scrollable by keyboard, gives every select element a label, puts the title and the servers into landmarks,
// and closes the gap between the title and the headings of the third level and below.
new MutationObserver(() => {
  for (const example of document.querySelectorAll("pre.microlight:not([tabindex])")) example.tabIndex = 0;
  for (const choice of document.querySelectorAll("select:not([aria-label])")) choice.setAttribute("aria-label", choice.id === "servers" ? "Server" : "Example");
  for (const [part, label] of [["information-container", "About this API"], ["schemes-server-container", "Servers"]]) Object.assign(document.querySelector(`.${part}`) ?? {}, { role: "region", ariaLabel: label });
  for (const heading of document.querySelectorAll(":is(h3, h4, h5):not([aria-level])")) heading.setAttribute("aria-level", heading.localName[1] - 1);
}).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
