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

// Makes examples scrollable by keyboard and gives every select element a label.
new MutationObserver(() => {
  for (const example of document.querySelectorAll("pre.microlight:not([tabindex])")) example.tabIndex = 0;
  for (const choice of document.querySelectorAll("select:not([aria-label])")) choice.setAttribute("aria-label", choice.id === "servers" ? "Server" : "Example");
}).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
