-- page.lua - the head of a report's HTML page: its style, and the scripts that draw flame graph,
-- timeline and memory. The page loads nothing from elsewhere.

local M = {}

M.head = [==[
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>$TITLE</title>
<style>
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1240px; padding: 0 16px;
  color: #1d2430; background: #fff; }
h1 { font-size: 20px; margin: 0 0 4px } h2 { font-size: 16px; margin: 28px 0 8px }
pre { font: 12px/1.45 ui-monospace, monospace; background: #f5f6f8; padding: 10px 12px;
  overflow-x: auto; border-radius: 6px }
canvas { width: 100%; display: block; border: 1px solid #e0e3e8; border-radius: 6px }
.tip { position: fixed; pointer-events: none; background: #1d2430; color: #fff; padding: 4px 8px;
  border-radius: 4px; font-size: 12px; display: none; white-space: pre; z-index: 9 }
.hint, .key { color: #667; font-size: 12px; margin: 4px 0 } .key span { margin-right: 14px }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 5px; border-radius: 2px }
</style></head><body><h1>$TITLE</h1><div class="tip" id="tip"></div>
<script>
const tip = document.getElementById("tip");
const palette = ["#4c78a8", "#f58518", "#8a8f98", "#54a24b", "#e45756", "#b279a2", "#eeca3b",
  "#c9ced6", "#9d755d", "#72b7b2"];
const kinds = ["operators", "backward", "named", "modules", "collector", "data", "optimizer",
  "steps", "device", "kernels"];
function time(ns) {
  return ns >= 1e9 ? (ns / 1e9).toFixed(3) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(3) + " ms"
    : (ns / 1e3).toFixed(1) + " us";
}
function bytes(n) {
  return n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + " GB" : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1)
    + " MB" : n >= 1024 ? (n / 1024).toFixed(1) + " KB" : n + " B";
}
function element(name, parent, text) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
function canvas(height) {
  const c = element("canvas", document.body), ratio = window.devicePixelRatio || 1;
  const fit = () => {
    c.style.height = height + "px";
    c.width = c.clientWidth * ratio; c.height = height * ratio;
    const g = c.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle";
    return g;
  };
  return [c, fit];
}
function label(g, text, x, y, width) {
  if (width < 24) return;
  const most = Math.floor((width - 6) / 6);
  g.fillText(text.length > most ? text.slice(0, Math.max(most - 1, 1)) + "…" : text, x + 3, y);
}
function hover(c, find) {
  c.addEventListener("mousemove", e => {
    const text = find(e.offsetX, e.offsetY);
    tip.style.display = text ? "block" : "none";
    tip.textContent = text || "";
    tip.style.left = Math.min(e.clientX + 12, innerWidth - 340) + "px";
    tip.style.top = e.clientY + 14 + "px";
  });
  c.addEventListener("mouseleave", () => { tip.style.display = "none"; });
}
function key(list, hidden, click) {
  const p = element("p", document.body);
  p.className = "key";
  list.forEach(([name, colour], k) => {
    const s = element("span", p), i = element("i", s);
    i.style.background = colour;
    s.appendChild(document.createTextNode(name));
    if (!click) return;
    const fade = () => { s.style.opacity = hidden[k] ? 0.4 : 1; };
    s.style.cursor = "pointer";
    s.addEventListener("click", () => { hidden[k] = !hidden[k]; fade(); click(); });
    fade();
  });
}
function hue(text) {
  let h = 7;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) >>> 0;
  return "hsl(" + (15 + h % 40) + " 85% " + (62 + h / 64 % 14) + "%)";
}
function flame(names, root) {
  const total = n => n.total = n[3].reduce((sum, c) => sum + total(c), n[1]);
  const depth = n => 1 + n[3].reduce((most, c) => Math.max(most, depth(c)), 0);
  const all = total(root), rows = depth(root), size = 18;
  root.name = "all";
  const [c, fit] = canvas(rows * size + 4);
  let top = root, boxes = [];
  const draw = () => {
    const g = fit(), width = c.clientWidth;
    boxes = [];
    const put = (n, x, w, y, name) => {
      if (w < 0.4) return;
      g.fillStyle = hue(name);
      g.fillRect(x, y, Math.max(w - 0.5, 0.4), size - 1);
      g.fillStyle = "#222";
      label(g, name, x, y + size / 2, w);
      boxes.push([x, y, w, n, name]);
      let at = x;
      [...n[3]].sort((a, b) => b.total - a.total).forEach(k => {
        const part = n.total > 0 ? w * k.total / n.total : 0;
        put(k, at, part, y + size, names[k[0]]);
        at += part;
      });
    };
    put(top, 0, width, 2, top === root ? "all" : names[top[0]]);
  };
  const box = (x, y) => boxes.find(b =>
    x >= b[0] && x < b[0] + b[2] && y >= b[1] && y < b[1] + size);
  hover(c, (x, y) => {
    const b = box(x, y);
    return b && b[4] + "\n" + time(b[3].total) + ", "
      + (100 * b[3].total / Math.max(all, 1)).toFixed(1) + " %\nof it alone "
      + time(b[3][1]) + (b[3][2] ? "\n" + b[3][2] + " calls" : "");
  });
  c.addEventListener("click", e => {
    const b = box(e.offsetX, e.offsetY);
    top = b && b[3] !== top ? b[3] : root;
    draw();
  });
  addEventListener("resize", draw);
  draw();
  element("p", document.body, "Width is time, from the outside down. Click to enlarge, again to go "
    + "back.").className = "hint";
}
function timeline(data, names, end) {
  const n = data.length / 5, size = 16;
  let rows = 0, devices = false;
  for (let i = 0; i < n; i++) {
    if (data[5 * i + 4] === 8) devices = true; else rows = Math.max(rows, data[5 * i + 2] + 1);
  }
  rows = Math.min(rows, 60);
  const [c, fit] = canvas((rows + (devices ? 2 : 0)) * size + 20);
  let from = 0, to = Math.max(end, 1);
  const row = i => data[5 * i + 4] === 8 ? rows + 1 : data[5 * i + 2];
  const draw = () => {
    const g = fit(), width = c.clientWidth, scale = width / (to - from), last = [];
    for (let i = 0; i < n; i++) {
      const x = (data[5 * i] - from) * scale, w = data[5 * i + 1] * scale, y = row(i);
      if (x + w < 0 || x > width || y >= rows + 2) continue;
      if (w < 0.5 && last[y] !== undefined && x - last[y] < 0.5) continue;
      last[y] = x + w;
      g.fillStyle = palette[data[5 * i + 4]];
      g.fillRect(x, y * size + 18, Math.max(w - 0.3, 0.5), size - 1);
      if (w >= 24) {
        g.fillStyle = data[5 * i + 4] === 7 || data[5 * i + 4] === 6 ? "#222" : "#fff";
        label(g, names[data[5 * i + 3]], Math.max(x, 0), y * size + 18 + size / 2,
          Math.min(x + w, width) - Math.max(x, 0));
      }
    }
    g.fillStyle = "#667";
    for (let k = 0; k < 8; k++) g.fillText(time(from + (to - from) * k / 8), width * k / 8 + 2, 8);
  };
  c.addEventListener("wheel", e => {
    e.preventDefault();
    const at = from + (to - from) * e.offsetX / c.clientWidth, by = e.deltaY > 0 ? 1.25 : 0.8;
    from = Math.max(0, at - (at - from) * by);
    to = Math.min(end, at + (to - at) * by);
    if (to - from < 100) to = from + 100;
    draw();
  }, {passive: false});
  let held = null;
  c.addEventListener("mousedown", e => { held = [e.offsetX, from, to]; });
  addEventListener("mouseup", () => { held = null; });
  c.addEventListener("mousemove", e => {
    if (!held) return;
    const by = (held[0] - e.offsetX) * (held[2] - held[1]) / c.clientWidth;
    if (held[1] + by < 0 || held[2] + by > end) return;
    from = held[1] + by; to = held[2] + by;
    draw();
  });
  hover(c, (x, y) => {
    const at = from + (to - from) * x / c.clientWidth, r = Math.floor((y - 18) / size);
    const slack = (to - from) / c.clientWidth;
    for (let i = n - 1; i >= 0; i--) {
      if (row(i) === r && data[5 * i] <= at + slack && data[5 * i] + data[5 * i + 1] >= at - slack)
        return names[data[5 * i + 3]] + "\n" + time(data[5 * i + 1]) + " at " + time(data[5 * i])
          + "\n" + kinds[data[5 * i + 4]];
    }
  });
  addEventListener("resize", draw);
  draw();
  const used = new Set();
  for (let i = 0; i < n; i++) used.add(data[5 * i + 4]);
  key(kinds.map((k, i) => [k, palette[i], i]).filter(k => used.has(k[2])));
  const p = element("p", document.body, "Turn the wheel to zoom, drag to move.");
  p.className = "hint";
}
function memory(categories, points, end) {
  const colours = ["#4c78a8", "#b279a2", "#f58518", "#54a24b", "#c9ced6", "#eef0f3"];
  const height = 280, left = 64;
  const [c, fit] = canvas(height);
  const hidden = categories.map(() => false), last = categories.length - 1;
  const highest = () => points.reduce((most, p) => Math.max(most,
    p.slice(1).reduce((sum, part, k) => hidden[k] ? sum : sum + part, 0)), 1);
  const all = highest();
  hidden[last] = true;
  hidden[last] = all > 4 * highest(); // cached, which would leave no room for the others
  const draw = () => {
    const g = fit(), width = c.clientWidth - left, h = height - 30, most = highest();
    points.forEach((p, i) => {
      const x = left + p[0] / end * width;
      const next = i + 1 < points.length ? points[i + 1][0] : end;
      let y = h + 8;
      categories.forEach((_, k) => {
        if (hidden[k]) return;
        const part = p[k + 1] / most * h;
        g.fillStyle = colours[k];
        g.fillRect(x, y - part, Math.max((next - p[0]) / end * width + 0.5, 0.5), part);
        y -= part;
      });
    });
    g.fillStyle = "#667";
    for (let k = 0; k <= 4; k++) g.fillText(bytes(Math.round(most * k / 4)), 4, h + 8 - h * k / 4);
    for (let k = 0; k < 6; k++) g.fillText(time(end * k / 6), left + width * k / 6, height - 10);
  };
  hover(c, x => {
    const at = (x - left) / (c.clientWidth - left) * end;
    let p = null;
    for (const q of points) if (q[0] <= at) p = q;
    const lines = p && categories.map((name, k) => name + " " + bytes(p[k + 1]));
    return p && time(p[0]) + "\n" + lines.join("\n");
  });
  addEventListener("resize", draw);
  draw();
  key(categories.map((name, k) => [name, colours[k]]), hidden, draw);
  const p = element("p", document.body, "Click a name to hide or show what it stands for.");
  p.className = "hint";
}
</script>
]==]

return M
