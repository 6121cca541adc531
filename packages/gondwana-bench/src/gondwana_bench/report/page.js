(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const name = () => { button.textContent = shown() === "dark" ? "Light colours" : "Dark colours"; };
  button.addEventListener("click", () => { root.dataset.theme = shown() === "dark" ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
  button.hidden = false;
  name();
})();
