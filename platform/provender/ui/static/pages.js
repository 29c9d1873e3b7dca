// Comforts only: every page works without this file.
"use strict";

const THEMES = ["auto", "light", "dark"];

function storedTheme() {
  try {
    const found = localStorage.getItem("provender-theme");
    return THEMES.includes(found) ? found : "auto";
  } catch {
    return "auto"; // storage may be forbidden
  }
}

function applyTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
}

// Before the page is drawn, so that it never flashes in the other colours.
applyTheme(storedTheme());

function startThemeButton() {
  const button = document.getElementById("theme");
  if (!button) return;
  const label = button.querySelector("span");
  const show = (theme) => {
    label.textContent = theme;
    button.setAttribute("aria-label", `Colours: ${theme}. Press to change.`);
  };
  show(storedTheme());
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
    try {
      localStorage.setItem("provender-theme", next);
    } catch {
      // then it holds for this page only
    }
    applyTheme(next);
    show(next);
  });
}

function startShortcuts() {
  const words = document.getElementById("words");
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && words && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      words.focus();
      words.select();
    }
  });
}

// In a lineage picture the arrow keys go to the nearest box in that direction.
function startPicture() {
  const picture = document.getElementById("picture");
  if (!picture) return;
  const boxes = [...picture.querySelectorAll("a.box")];
  const middle = (box) => {
    const place = box.getBoundingClientRect();
    return { x: place.x + place.width / 2, y: place.y + place.height / 2 };
  };
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  picture.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    const here = document.activeElement?.closest("a.box");
    if (!way || !here) return;
    const from = middle(here);
    let best = null;
    let least = Infinity;
    for (const box of boxes) {
      const to = middle(box);
      const along = (to.x - from.x) * way[0] + (to.y - from.y) * way[1];
      const aside = Math.abs((to.x - from.x) * way[1]) + Math.abs((to.y - from.y) * way[0]);
      if (box !== here && along > 4 && along + 2 * aside < least) {
        least = along + 2 * aside;
        best = box;
      }
    }
    if (best) {
      event.preventDefault();
      best.focus();
      best.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  });
  const start = picture.querySelector("a.box.start");
  if (start) {
    const frame = picture.getBoundingClientRect();
    const place = start.getBoundingClientRect();
    picture.scrollLeft += place.x + place.width / 2 - (frame.x + frame.width / 2);
    picture.scrollTop += place.y + place.height / 2 - (frame.y + frame.height / 2);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  startThemeButton();
  startShortcuts();
  startPicture();
});
