(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const name = () => { button.textContent = shown() === "dark" ? "Light colours" : "Dark colours"; };
  button.addEventListener("click", () => { root.dataset.theme = shown() === "dark" ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
  button.hidden = false;
  name();

  const main = document.querySelector("main"), filters = [...document.querySelectorAll("[data-filter]")];
  const filter = () => {
    const asked = location.hash.slice(1), known = filters.some(one => one.dataset.filter === asked);
    const chosen = known ? asked : "all";
    main.dataset.shown = chosen;
    for (const one of filters) one.setAttribute("aria-pressed", one.dataset.filter === chosen);
    for (const group of document.querySelectorAll(".group")) group.open = group.classList.contains("is-" + chosen);
  };
  for (const one of filters) {
    one.hidden = false;
    one.addEventListener("click", () => { location.hash = one.dataset.filter; });
  }
  window.addEventListener("hashchange", filter);
  filter();
})();
