/* The dashboard: once a second /stats.json, and the table's epochs; the history is kept here, for ten minutes. */
"use strict";

const HISTORY = 600, LABELS_SHOWN = 7, ROW = 28, MANY = 10000, FEW = 200;
const LIGHT = ["#2a78d6", "#0f9a6a", "#d98e00", "#7a3fb8", "#d1413f", "#0b8aa8", "#c2529a", "#8b8f96"];
const DARK = ["#5a9fee", "#35c491", "#f2b13c", "#b08aee", "#f07a72", "#46bfd8", "#e38cc0", "#838b94"];
const $ = (id) => document.getElementById(id);

/* ---- words ------------------------------------------------------------------------------------------------------ */

function size(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  while (Math.abs(bytes) >= 1000 && i < units.length - 1) { bytes /= 1000; i++; }
  return (i ? bytes.toFixed(1) : String(Math.round(bytes))) + " " + units[i];
}
function count(n) { return n === null || n === undefined ? "-" : Math.round(n).toLocaleString("en"); }
function rate(n) { return n === null || n === undefined ? "-" : n >= 100 ? count(n) : n.toFixed(1); }
function duration(ns) {
  const s = ns / 1e9;
  return s < 1 ? Math.round(s * 1000) + " ms" : s < 600 ? Math.floor(s) + " s" : s < 36000 ? Math.floor(s / 60) + " min" : Math.floor(s / 3600) + " h";
}
function time(ns) {
  if (ns === null || ns === undefined) return "-";
  return ns < 1000 ? ns.toFixed(0) + " ns" : ns < 1e6 ? (ns / 1000).toFixed(1) + " µs" : (ns / 1e6).toFixed(1) + " ms";
}
function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) k === "class" ? (e.className = v) : e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/* ---- theme --------------------------------------------------------------------------------------------------------- */

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try { chosen = localStorage.getItem("tslab-theme"); } catch (e) { /* no storage: the system's */ }
const dark = () => (chosen ? chosen === "dark" : system.matches);
function applyTheme() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  rebuild();
}
function toggleTheme() {
  chosen = dark() ? "light" : "dark";
  try { localStorage.setItem("tslab-theme", chosen); } catch (e) { /* for this page only */ }
  applyTheme();
}
system.addEventListener("change", applyTheme);

/* ---- history --------------------------------------------------------------------------------------------------------- */

const history = []; /* {t, labels: Map, closes, ...} */
const colourOf = new Map(); /* label: place in the palette, kept as long as it is shown */
let shown = []; /* labels of the stacked chart, from the bottom */
let last = null;

function delta(now, before, field) {
  if (!before) return null;
  const d = now[field] - before[field];
  return d < 0 ? null : d;
}

function remember(stats) {
  const t = Date.now() / 1000, g = stats.global, before = last && last.pid === stats.pid ? last : null;
  const seconds = before ? Math.max((stats.taken_ns - before.taken_ns) / 1e9, 1e-3) : 1;
  const per = (field) => { const d = delta(g, before && before.global, field); return d === null ? null : d / seconds; };
  const point = { t, labels: new Map(), closes: delta(g, before && before.global, "epoch_close_calls") || 0,
    resident: g.resident_bytes, committed: g.committed_bytes, live: g.live_bytes, purged: per("madvise_bytes"),
    rejected: per("rejected_frees_total"), closed: per("slow_path_epoch_closed") };
  for (const l of stats.labels) point.labels.set(l.label, l.active_rss_bytes + l.closing_rss_bytes);
  const fresh = per("slow_path_cache_miss"), slabs = per("new_slab_count"), hits = per("slow_path_hits");
  point.miss = fresh;
  point.warm = slabs === null || fresh === null ? null : Math.max(slabs - fresh, 0);
  point.rest = hits === null || slabs === null ? null : Math.max(hits - slabs, 0);
  for (const what of ["alloc", "free"]) {
    const n = delta(stats.samples, before && before.samples, what + "_samples");
    for (const kind of ["wall", "cpu", "wait"])
      point[what + "_" + kind] = n ? delta(stats.samples, before && before.samples, `${what}_${kind}_ns_sum`) / n : null;
  }
  history.push(point);
  if (history.length > HISTORY) history.shift();
  last = stats;
}

/* The labels that held most in the history; a label keeps its place and colour while it is among them. */
function chooseLabels() {
  const most = new Map();
  for (const p of history) for (const [l, b] of p.labels) if (b > (most.get(l) || 0)) most.set(l, b);
  const best = [...most].filter(([l, b]) => b > 0 && l !== "(other)").sort((a, b) => b[1] - a[1]).slice(0, LABELS_SHOWN).map(([l]) => l);
  const next = shown.filter((l) => best.includes(l));
  for (const l of best) if (!next.includes(l)) next.push(l);
  for (const l of [...colourOf.keys()]) if (!next.includes(l)) colourOf.delete(l);
  for (const l of next) {
    if (colourOf.has(l)) continue;
    let i = 0;
    while ([...colourOf.values()].includes(i)) i++;
    colourOf.set(l, i);
  }
  const changed = next.join("\n") !== shown.join("\n");
  shown = next;
  return changed;
}

/* ---- charts ------------------------------------------------------------------------------------------------------------- */

const charts = {};

function axes(format, right) {
  const style = getComputedStyle(document.documentElement), stroke = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
  const grid = { stroke: line, width: 1 }, ticks = { stroke: line, width: 1 };
  const list = [{ stroke, grid, ticks }, { stroke, grid, ticks, size: 70, values: (u, v) => v.map(format) }];
  if (right) list.push({ stroke, grid: { show: false }, ticks, side: 1, scale: "right", size: 70, values: (u, v) => v.map(right) });
  return list;
}

const fromZero = (u, min, max) => [0, max > 0 ? max * 1.05 : 4];

function plot(id, series, format, more) {
  const at = $(id), options = Object.assign({ width: at.clientWidth || 400, height: id === "by-label" ? 300 : 200,
    cursor: { points: { size: 6 } }, scales: { y: { range: fromZero }, right: { range: fromZero } },
    axes: axes(format, more && more.right),
    series: [{ value: (u, v) => (v === null || v === undefined ? "-" : new Date(v * 1000).toLocaleTimeString()) },
      ...series.map((x) => Object.assign({ points: { show: false } }, x))] }, more && more.options);
  if (charts[id]) charts[id].destroy();
  at.textContent = "";
  charts[id] = new uPlot(options, [[]].concat(series.map(() => [])), at);
}

const palette = () => (dark() ? DARK : LIGHT);
const stroke = (label, i, format, more) => Object.assign({ label, stroke: palette()[i], width: 2, value: (u, v) => format(v) }, more);

/* Where epochs were closed: a line at the bottom of the chart, the higher the more of them. */
function drawCloses(u) {
  const c = u.ctx, bottom = u.bbox.top + u.bbox.height, most = Math.max(1, ...history.map((p) => p.closes));
  c.save();
  c.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
  c.lineWidth = Math.max(1, devicePixelRatio);
  c.beginPath();
  for (const p of history) {
    if (!p.closes) continue;
    const x = Math.round(u.valToPos(p.t, "x", true)) + 0.5;
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    c.moveTo(x, bottom);
    c.lineTo(x, bottom - (6 + 12 * p.closes / most) * devicePixelRatio);
  }
  c.stroke();
  c.restore();
}

function stacked() {
  const names = ["(other)", ...shown].reverse(); /* the uppermost first, as the legend is read */
  const series = names.map((l) => {
    const colour = l === "(other)" ? palette()[LABELS_SHOWN] : palette()[colourOf.get(l) % LABELS_SHOWN];
    return { label: l, stroke: colour, fill: colour + (dark() ? "99" : "88"), width: 1,
      value: (u, v, i, k) => (k === null || k === undefined || !history[k] ? "-" : size(held(history[k], l))) };
  });
  series.push({ label: "closes", stroke: "transparent", points: { show: false }, value: (u, v, i, k) => (history[k] ? count(history[k].closes) : "-") });
  plot("by-label", series, size, { options: { hooks: { draw: [drawCloses] },
    bands: names.slice(1).map((l, i) => ({ series: [i + 1, i + 2] })) } });
}

function held(point, label) {
  if (label !== "(other)") return point.labels.get(label) || 0;
  let rest = 0;
  for (const [l, b] of point.labels) if (!shown.includes(l)) rest += b;
  return rest;
}

function rebuild() {
  if (!window.uPlot) return;
  chooseLabels();
  stacked();
  plot("memory", [stroke("resident", 3, size), stroke("committed", 0, size), stroke("live", 1, size),
    stroke("purged/s", 2, size, { scale: "right", dash: [4, 3] })], size, { right: size });
  plot("slow", [stroke("fresh memory", 4, rate), stroke("warm slab", 0, rate), stroke("other", 7, rate), stroke("epoch closed", 2, rate)], rate);
  plot("latency", [stroke("alloc wall", 0, time), stroke("alloc cpu", 1, time), stroke("alloc wait", 2, time),
    stroke("free wall", 3, time), stroke("free cpu", 5, time), stroke("free wait", 6, time)], time);
  plot("rejected", [stroke("rejected", 4, rate)], rate);
  fill();
}

function fill() {
  if (!charts.memory) return;
  const t = history.map((p) => p.t), get = (...names) => [t, ...names.map((n) => history.map((p) => p[n]))];
  let sum = t.map(() => 0);
  const layers = ["(other)", ...shown].map((l) => (sum = history.map((p, i) => sum[i] + held(p, l))));
  charts["by-label"].setData([t, ...layers.reverse(), t.map(() => null)]);
  charts.memory.setData(get("resident", "committed", "live", "purged"));
  charts.slow.setData(get("miss", "warm", "rest", "closed"));
  charts.latency.setData(get("alloc_wall", "alloc_cpu", "alloc_wait", "free_wall", "free_cpu", "free_wait"));
  charts.rejected.setData(get("rejected"));
  /* The legends show the newest figures while nobody points at a chart. */
  for (const c of Object.values(charts)) if (c.cursor.idx === null || c.cursor.idx === undefined) c.setLegend({ idx: history.length - 1 });
}

addEventListener("resize", () => {
  for (const [id, c] of Object.entries(charts)) c.setSize({ width: $(id).clientWidth, height: c.height });
});

/* ---- words and tables ------------------------------------------------------------------------------------------------------ */

/* `code` in the server's sentences, as elements: labels are the program's own text. */
function sentence(name, text) {
  const b = element(name);
  text.split("`").forEach((part, i) => b.append(i % 2 ? element("code", {}, part) : part));
  return b;
}

function showFindings(list) {
  $("findings").replaceChildren(...list.map((f) => element("div", { class: "finding " + f.severity },
    element("span", { class: "severity" }, f.severity), sentence("b", f.what),
    sentence("div", f.evidence), element("div", { class: "note" }, f.advice))));
}

function showTiles(g) {
  const tiles = [["Resident", size(g.resident_bytes)], ["Committed", size(g.committed_bytes)], ["Live", size(g.live_bytes)],
    ["Live objects", count(g.live_objects)], ["Warm", size(g.retained_bytes)],
    ["Budget", g.budget_bytes ? Math.round(100 * g.committed_bytes / g.budget_bytes) + " % of " + size(g.budget_bytes) : "none"],
    ["Epochs open", count(g.active_epoch_count)], ["Epochs closing", count(g.closing_epoch_count)],
    ["Rejected frees", count(g.rejected_frees_total), g.rejected_frees_total > 0], ["Purge failures", count(g.madvise_failures), g.madvise_failures > 0]];
  $("tiles").replaceChildren(...tiles.map(([name, value, bad]) =>
    element("div", { class: bad ? "tile bad" : "tile" }, element("span", {}, name), element("b", {}, value))));
}

function showClasses(list) {
  $("classes").tBodies[0].replaceChildren(...list.map((c) => {
    const part = c.committed_bytes ? 100 * c.live_bytes / c.committed_bytes : 0, meter = element("i");
    meter.style.width = part + "%";
    return element("tr", {}, element("td", {}, c.class), element("td", { class: "n" }, count(c.live_objects)),
      element("td", { class: "n" }, size(c.live_bytes)), element("td", { class: "n" }, size(c.committed_bytes)),
      element("td", {}, element("span", { class: "meter" }, meter), part.toFixed(0) + " %"),
      element("td", { class: "n" }, count(c.slow_path_hits)));
  }));
}

const COLUMNS = [["label", "Label", (e) => e.label || "(none)"], ["state", "State", (e) => e.state],
  ["age_ns", "Age", (e) => duration(e.age_ns), 1], ["closing_for_ns", "After close", (e) => (e.state === "closing" ? duration(e.closing_for_ns) : "-"), 1],
  ["live_objects", "Objects", (e) => count(e.live_objects), 1], ["live_bytes", "Live bytes", (e) => size(e.live_bytes), 1],
  ["estimated_rss_bytes", "Slabs", (e) => size(e.estimated_rss_bytes), 1], ["reclaimable_bytes", "Reclaimable", (e) => size(e.reclaimable_bytes), 1]];
let sortBy = "estimated_rss_bytes", falling = true, epochs = [], rows = [], epochTotal = 0, oldest = null, largest = null, noted = [], stacks = { modules: [], sites: [] };

function showHeads() {
  $("epochs").querySelector("thead tr").replaceChildren(...COLUMNS.map(([key, name, , right]) => {
    const button = element("button", { type: "button" }, name + (key === sortBy ? (falling ? " ▼" : " ▲") : ""));
    button.addEventListener("click", () => {
      falling = key === sortBy ? !falling : !["label", "state"].includes(key);
      sortBy = key;
      showHeads();
      arrange();
      fetchEpochs();
    });
    return element("th", { class: right ? "n" : "", "aria-sort": key === sortBy ? (falling ? "descending" : "ascending") : "none" }, button);
  }));
}

function arrange() {
  const filter = $("filter").value.trim().toLowerCase();
  /* The oldest that holds something and the largest come first; /stats.json has them, whatever the table was asked for. */
  oldest = largest = null;
  for (const e of noted) {
    if (e.live_objects && (!oldest || e.age_ns > oldest.age_ns)) oldest = e;
    if (e.estimated_rss_bytes && (!largest || e.estimated_rss_bytes > largest.estimated_rss_bytes)) largest = e;
  }
  const pinned = [...new Set([oldest, largest])].filter(Boolean), ids = new Set(pinned.map((e) => e.epoch_id));
  rows = epochs.filter((e) => !ids.has(e.epoch_id)).filter((e) => !filter || (e.label || "(none)").toLowerCase().includes(filter) || e.state.includes(filter));
  rows.sort((a, b) => {
    const x = a[sortBy], y = b[sortBy], d = x < y ? -1 : x > y ? 1 : a.epoch_id - b.epoch_id;
    return falling ? -d : d;
  });
  rows.unshift(...pinned);
  $("epoch-count").textContent = epochs.length < epochTotal ? `${count(rows.length)} shown of ${count(epochTotal)}` : `${count(rows.length)}`;
  showRows();
}

/* The largest sampled stacks of the epochs with its label and state, each with its inner frames as FILE+ADDRESS. BigInt:
   addresses have more bits than a number. */
function sitesOf(e) {
  const place = (frame) => {
    const at = BigInt(frame), m = stacks.modules.find((m) => at >= BigInt(m.start) && at < BigInt(m.end));
    return m ? `${m.path}+0x${(at - BigInt(m.base)).toString(16)}` : frame;
  };
  return stacks.sites.filter((s) => s.label === e.label && s.state === e.state).slice(0, 2).map((s) =>
    `\n\nabout ${size(s.live_bytes)} in ${count(s.live_objects)} objects:` + s.frames.slice(0, 4).map((f) => "\n  at " + place(f)).join("")).join("");
}

/* Only the rows that are seen exist; two empty ones hold the place of the others. */
function showRows() {
  const box = $("epochs"), from = Math.max(0, Math.floor(box.scrollTop / ROW) - 5), to = Math.min(rows.length, from + Math.ceil(box.clientHeight / ROW) + 10);
  const pad = (n) => { const td = element("td", { colspan: COLUMNS.length }); td.style.height = n * ROW + "px"; return element("tr", { class: "pad", "aria-hidden": "true" }, td); };
  const list = rows.slice(from, to).map((e) => {
    const marks = [e === oldest ? "oldest" : "", e === largest ? "largest" : ""].filter(Boolean);
    const tr = element("tr", { class: marks.length ? "stands-out" : "" }, ...COLUMNS.map(([key, , show, right]) =>
      element("td", { class: right ? "n" : key === "label" ? "label" : "" }, show(e))));
    if (marks.length) tr.firstChild.append(...marks.map((m) => element("span", { class: "badge" }, m)));
    tr.firstChild.title = (e.label || "(none)") + ", epoch " + e.epoch_id + sitesOf(e);
    return tr;
  });
  box.querySelector("tbody").replaceChildren(pad(from), ...list, pad(rows.length - to));
}

/* ---- the beat ------------------------------------------------------------------------------------------------------------- */

let paused = false, beats = 0, fetching = false, again = false;

async function getJson(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!answer.ok) throw new Error(path + ": " + answer.status);
  return answer.json();
}

/* The few that matter every second; all there are, if something is looked for, every fifth. */
async function fetchEpochs() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  again = false;
  try {
    const all = $("filter").value.trim() !== "" || $("epochs").scrollTop > 0 || !["estimated_rss_bytes", "live_bytes", "age_ns"].includes(sortBy) || !falling;
    const answer = await getJson(`/epochs.json?sort=${sortBy === "age_ns" ? "age" : "bytes"}&limit=${all ? MANY : FEW}`);
    epochs = answer.epochs;
    epochTotal = answer.epoch_count;
    arrange();
  } catch (e) { /* the next beat says so */ } finally { fetching = false; }
  if (again) fetchEpochs();
}

async function beat() {
  const started = Date.now();
  if (!paused) {
    try {
      const stats = await getJson("/stats.json");
      remember(stats);
      if (chooseLabels()) stacked();
      fill();
      showFindings(stats.findings);
      showTiles(stats.global);
      showClasses(stats.classes);
      noted = stats.epochs;
      stacks = stats.stacks;
      $("sampling").textContent = stats.samples.sample_rate ? `one in ${stats.samples.sample_rate}` : "off: TSLAB_SAMPLE=N times one operation in N";
      $("state").textContent = `process ${stats.pid}, live`;
      $("state").className = "";
      if (beats++ % (epochs.length > FEW ? 5 : 1) === 0) fetchEpochs();
    } catch (e) {
      $("state").textContent = "no answer: " + e.message;
      $("state").className = "lost";
    }
  }
  setTimeout(beat, Math.max(100, 1000 - (Date.now() - started)));
}

function togglePause() {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", String(paused));
}

$("pause").addEventListener("click", togglePause);
$("theme").addEventListener("click", toggleTheme);
$("filter").addEventListener("input", () => { arrange(); fetchEpochs(); });
$("epochs").addEventListener("scroll", () => { showRows(); if (epochs.length < epochTotal) fetchEpochs(); });
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target === $("filter")) {
    if (e.key === "Escape" && e.target === $("filter")) { $("filter").value = ""; $("filter").blur(); arrange(); }
    return;
  }
  if (e.key === "p") togglePause();
  if (e.key === "t") toggleTheme();
  if (e.key === "/") { e.preventDefault(); $("filter").focus(); }
});
showHeads();
applyTheme();
beat();
