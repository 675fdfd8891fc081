"use strict";
// The button that changes between light and dark colours; plots take theirs from the style sheet.
(() => {
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  function show() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Show in light colours" : "Show in dark colours");
  }

  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  systemDark.addEventListener("change", show);
  show();
})();
