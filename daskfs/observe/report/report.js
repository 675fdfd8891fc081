"use strict";
// The page's colours, and the plots in them. Bokeh's figures come with placeholders for colours: a change of theme
// fills in the new ones and draws them again.
(() => {
  const root = document.documentElement;
  const plots = JSON.parse(document.getElementById("data-plots").textContent);
  const PLACEHOLDERS = { "#000001": "--quiet", "#000002": "--line", "#000003": "--accent", "#000004": "--paper" };
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  // What a colour of the style sheet comes to now.
  function colour(name) {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function draw() {
    let text = JSON.stringify(plots);
    for (const [placeholder, name] of Object.entries(PLACEHOLDERS)) text = text.replaceAll(placeholder, colour(name));
    const coloured = JSON.parse(text);
    for (const place of document.querySelectorAll("[data-plot]")) {
      place.replaceChildren();
      Bokeh.embed.embed_item({ ...coloured[place.dataset.plot], target_id: null }, place);
    }
  }

  function show() {
    button.textContent = isDark() ? "Light" : "Dark";
    root.dataset.shown = isDark() ? "dark" : "light";
    button.setAttribute("aria-label", isDark() ? "Show in light colours" : "Show in dark colours");
    if (Object.keys(plots).length) draw();
  }

  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  systemDark.addEventListener("change", () => {
    if (!matchMedia("print").matches) show(); // paper does not wait for plots to be drawn again; the style sheet sees to it
  });
  show();
})();
