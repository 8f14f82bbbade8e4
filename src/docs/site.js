// Builds the menu from `contents = [[heading, page, title], ...]` in index.js, and searches
// `names = [[name, page, first sentence], ...]` in the same file.
"use strict";
(() => {
  const input = document.getElementById("search"), list = document.getElementById("found");
  let shown = [], chosen = -1;

  // Returns how well a name matches a word; a smaller number is a better match. The best match is
  // the whole name, then its last part, then its beginning, then any part.
  function rank(name, word) {
    const whole = name.toLowerCase(), last = whole.slice(whole.search(/[^.:]*$/));
    if (whole === word || last === word) return 0;
    if (last.startsWith(word)) return 1;
    if (whole.startsWith(word) || whole.includes("." + word)) return 2;
    return whole.includes(word) ? 3 : -1;
  }

  function find(text) {
    const word = text.trim().toLowerCase().replace(/^torch\./, "");
    if (!word) return [];
    const found = [];
    for (const row of names) {
      let place = rank(row[0], word);
      if (place < 0 && word.length > 3 && row[2].toLowerCase().includes(word)) place = 4;
      if (place >= 0) found.push([place, row]);
    }
    found.sort((a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length || (a[1][0] < b[1][0] ? -1 : 1));
    return found.slice(0, 30).map((pair) => pair[1]);
  }

  function show() {
    list.textContent = "";
    shown.forEach((row, i) => {
      const item = document.createElement("li"), anchor = document.createElement("a");
      const about = document.createElement("small");
      anchor.href = row[1];
      anchor.textContent = row[0];
      about.textContent = row[2];
      anchor.append(about);
      item.append(anchor);
      if (i === chosen) item.className = "chosen";
      list.append(item);
    });
  }

  input.addEventListener("input", () => {
    shown = find(input.value);
    chosen = shown.length ? 0 : -1;
    show();
  });
  input.addEventListener("keydown", (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && shown.length) {
      chosen = (chosen + step + shown.length) % shown.length;
      show();
      event.preventDefault();
    } else if (event.key === "Enter" && chosen >= 0) {
      location.href = shown[chosen][1];
    } else if (event.key === "Escape") {
      shown = [];
      show();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) list.textContent = "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      input.focus();
      event.preventDefault();
    }
  });
  const menu = document.querySelector("header .menu"), nav = document.querySelector("nav");
  let heading = "", group = null;
  // Submodules are listed only on pages of the same family, such as torch.nn.
  const family = (page) => page.replace(/^torch\./, "").split(".")[0];
  for (const [title, page, text] of contents) {
    if (title === "Modules" && text.includes(".") && family(page) !== family(nav.dataset.here)) continue;
    if (title !== heading) {
      const head = document.createElement("h2");
      group = document.createElement("ul");
      head.textContent = heading = title;
      nav.append(head, group);
    }
    const item = document.createElement("li"), anchor = document.createElement("a");
    anchor.href = page;
    anchor.textContent = text;
    if (page === nav.dataset.here) anchor.className = "here";
    item.append(anchor);
    group.append(item);
  }
  nav.querySelector(".here")?.scrollIntoView({block: "nearest"});
  menu.addEventListener("click", () => nav.classList.toggle("open"));
  const query = new URLSearchParams(location.search).get("q");
  if (query) {
    input.value = query;
    input.dispatchEvent(new Event("input"));
  }
})();
