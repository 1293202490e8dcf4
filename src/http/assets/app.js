/* The dashboard: once a second /stats.json, and the table's epochs. The history is the server's to begin with, then kept here: an
   hour, of which the last five minutes by the second. */
"use strict";

const HISTORY = 3600, FINE = 300, COARSE = 10, LABELS_SHOWN = 7, ROW = 28, MANY = 10000, FEW = 200;
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

/* Of /stats.json, or a point of /history.json, which has the time. */
function remember(stats) {
  if (last && last.pid !== stats.pid) history.length = 0;
  const t = (stats.time_ms || Date.now()) / 1000, g = stats.global, before = last && last.pid === stats.pid ? last : null;
  const seconds = before ? Math.max((stats.taken_ns - before.taken_ns) / 1e9, 1e-3) : 1;
  const per = (field) => { const d = delta(g, before && before.global, field); return d === null ? null : d / seconds; };
  const point = { t, labels: new Map(), closes: delta(g, before && before.global, "epoch_close_calls") || 0,
    resident: g.resident_bytes, committed: g.committed_bytes, live: g.live_bytes, purged: per("madvise_bytes"),
    rejected: per("rejected_frees_total"), closed: per("slow_path_epoch_closed") };
  for (const l of stats.labels) /* of several allocators those of one name together */
    point.labels.set(l.label, (point.labels.get(l.label) || 0) + (l.bytes === undefined ? l.active_rss_bytes + l.closing_rss_bytes : l.bytes));
  if (stats.other_bytes) point.labels.set("(other)", (point.labels.get("(other)") || 0) + stats.other_bytes);
  const fresh = per("slow_path_cache_miss"), slabs = per("new_slab_count"), hits = per("slow_path_hits");
  point.miss = fresh;
  point.retained = slabs === null || fresh === null ? null : Math.max(slabs - fresh, 0);
  point.rest = hits === null || slabs === null ? null : Math.max(hits - slabs, 0);
  for (const what of ["alloc", "free"]) {
    const n = delta(stats.samples, before && before.samples, what + "_samples");
    for (const kind of ["wall", "cpu", "wait"])
      point[what + "_" + kind] = n ? delta(stats.samples, before && before.samples, `${what}_${kind}_ns_sum`) / n : null;
  }
  history.push(point);
  last = stats;
  if (history.length % 60 === 0) thin(t);
}

/* What is older than FINE keeps a point in COARSE seconds. */
function thin(now) {
  let kept = -Infinity;
  const list = history.filter((p) => {
    if (p.t < now - HISTORY || (p.t < now - FINE && p.t - kept < COARSE - 0.5)) return false;
    kept = p.t;
    return true;
  });
  history.splice(0, history.length, ...list);
}

async function fetchHistory() {
  try {
    const answer = await getJson("/history.json");
    for (const p of answer.points) remember(Object.assign(p, { pid: about.pid }));
  } catch (e) { /* it begins here */ }
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

/* The time at a tick; seconds where ticks are closer than a minute. */
const clock = (ticks) => (t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: ticks.length > 1 && ticks[1] - ticks[0] < 60 ? "2-digit" : undefined });

function axes(format, right) {
  const style = getComputedStyle(document.documentElement), stroke = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
  const grid = { stroke: line, width: 1 }, ticks = { stroke: line, width: 1 };
  const list = [{ stroke, grid, ticks, space: 90, values: (u, v) => v.map(clock(v)) }, { stroke, grid, ticks, size: 70, values: (u, v) => v.map(format) }];
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

let purged = false; /* whether the chart of memory has that axis */

function rebuild() {
  if (!window.uPlot) return;
  chooseLabels();
  stacked();
  purged = history.some((p) => p.purged > 0);
  plot("memory", [stroke("resident", 3, size), stroke("committed", 0, size), stroke("live", 1, size),
    ...(purged ? [stroke("purged/s", 2, size, { scale: "right", dash: [4, 3] })] : [])], size, purged ? { right: size } : {});
  plot("slow", [stroke("fresh memory", 4, rate), stroke("retained slab", 0, rate), stroke("other", 7, rate), stroke("epoch closed", 2, rate)], rate);
  plot("latency", [stroke("alloc wall", 0, time), stroke("alloc cpu", 1, time), stroke("alloc wait", 2, time),
    stroke("free wall", 3, time), stroke("free cpu", 5, time), stroke("free wait", 6, time)], time);
  plot("rejected", [stroke("rejected", 4, rate)], rate);
  fill();
}

/* A chart with nothing in it is not shown; which, and why, is said below them. */
function showCharts() {
  const some = (...names) => history.some((p) => names.some((n) => p[n] > 0));
  const here = { "by-label": history.some((p) => [...p.labels.values()].some((b) => b > 0)), memory: history.length > 0,
    slow: some("miss", "retained", "rest", "closed"), latency: some("alloc_wall", "free_wall"), rejected: some("rejected") };
  const why = { "by-label": "slabs by label (none so far)", slow: "slow paths (none so far)",
    latency: "timed operations (TSLAB_SAMPLE=N times one operation in N)", rejected: "rejected frees (none so far)" };
  const missing = Object.keys(why).filter((id) => !here[id]).map((id) => why[id]);
  $("not-shown").hidden = missing.length === 0;
  $("not-shown").textContent = "Not shown, because there is nothing in them: " + missing.join(", ") + ".";
  for (const [id, shows] of Object.entries(here)) {
    const figure = $(id).parentElement;
    if (figure.hidden === !shows) continue;
    figure.hidden = !shows;
    for (const [other, c] of Object.entries(charts)) if ($(other).clientWidth) c.setSize({ width: $(other).clientWidth, height: c.height });
  }
}

function fill() {
  if (!charts.memory) return;
  showCharts();
  const t = history.map((p) => p.t), get = (...names) => [t, ...names.map((n) => history.map((p) => p[n]))];
  let sum = t.map(() => 0);
  const layers = ["(other)", ...shown].map((l) => (sum = history.map((p, i) => sum[i] + held(p, l))));
  charts["by-label"].setData([t, ...layers.reverse(), t.map(() => null)]);
  charts.memory.setData(get("resident", "committed", "live", ...(purged ? ["purged"] : [])));
  charts.slow.setData(get("miss", "retained", "rest", "closed"));
  charts.latency.setData(get("alloc_wall", "alloc_cpu", "alloc_wait", "free_wall", "free_cpu", "free_wait"));
  charts.rejected.setData(get("rejected"));
  /* The legends show the newest figures while nobody points at a chart. */
  for (const c of Object.values(charts)) if (c.cursor.idx === null || c.cursor.idx === undefined) c.setLegend({ idx: history.length - 1 });
}

addEventListener("resize", () => {
  for (const [id, c] of Object.entries(charts)) if ($(id).clientWidth) c.setSize({ width: $(id).clientWidth, height: c.height });
});

/* ---- words and tables ------------------------------------------------------------------------------------------------------ */

/* `code` in the server's sentences, as elements: labels are the program's own text. */
function sentence(name, text) {
  const b = element(name);
  text.split("`").forEach((part, i) => b.append(i % 2 ? element("code", {}, part) : part));
  return b;
}

/* What was folded and unfolded stays so, though it is made anew each second. */
const folded = new Map();

function fold(key, open, title, ...children) {
  const e = element("details", {}, element("summary", {}, title), ...children);
  e.open = folded.has(key) ? folded.get(key) : open;
  e.addEventListener("toggle", () => folded.set(key, e.open));
  return e;
}

/* The sites of a finding, each with its inner frames. */
function sitesOf(f) {
  return (f.sites || []).map((s) => {
    const stack = stacks.sites[s.row], list = element("ol", { class: "frames" });
    if (!stack) return "";
    list.append(...stack.frames.slice(0, 8).map((frame) => element("li", {}, place(frame))));
    return element("div", { class: "site" }, `about ${size(s.live_bytes)} in ${count(s.live_objects)} objects, ${count(s.samples)} samples` +
      (s.stacks > 1 ? `, ${s.stacks} stacks, of which the largest is` : ""), list);
  });
}

/* Whose rows are shown: words only where there are several allocators. */
let several = false;
const ofWhich = (row) => (several && row.allocator ? `${row.allocator.number} ${row.allocator.name}` : "");
const badgeOf = (row) => (ofWhich(row) ? element("span", { class: "badge", title: "allocator" }, ofWhich(row)) : "");

function finding(f, i) {
  const sites = sitesOf(f), key = f.id + " " + (f.label || "") + " " + ofWhich(f);
  const what = sentence("b", f.what);
  what.append(" ", badgeOf(f));
  const lines = element("p", { class: "note" }, `Each place is FILE+OFFSET; tslab doctor ${about.pid || "PID"} has the lines of the source.`);
  return element("div", { class: "finding " + f.severity }, element("span", { class: "severity" }, f.severity), what,
    sentence("div", f.evidence), element("div", { class: "note" }, f.advice), sites.length ? fold("stacks " + key, i === 0, "Where it was allocated", ...sites, lines) : "");
}

const FINDINGS_SHOWN = 4;

function showFindings(stats) {
  const none = () => {
    const long = stats.watched_ns >= 12e9;
    return element("div", { class: "finding none" }, element("b", {}, long ? "Nothing found." : `Nothing found yet, watched for ${duration(stats.watched_ns || 0)}.`),
      element("div", { class: "note" }, long ? "No leak, no growth, no misuse, no limit that is near, and nothing that costs more than it need." : "What grows shows after 12 seconds."));
  };
  const all = stats.findings.map(finding), more = all.splice(FINDINGS_SHOWN);
  if (all.length === 0) all.push(none());
  if (more.length) all.push(fold("more", false, `${count(more.length)} more`, ...more));
  $("findings").replaceChildren(...all);
}

function showTiles(g) {
  const part = g.budget_bytes ? g.committed_bytes / g.budget_bytes : 0;
  const tiles = [["Resident", size(g.resident_bytes), "of the whole process"], ["Committed", size(g.committed_bytes), "slabs in use and retained"],
    ["Live", size(g.live_bytes), "objects not freed"], ["Live objects", count(g.live_objects), "of all epochs"], ["Retained", size(g.retained_bytes), "empty slabs kept for the next"],
    ["Budget", g.budget_bytes ? Math.round(100 * part) + " %" : "none", g.budget_bytes ? "committed, of " + size(g.budget_bytes) : "TSLAB_BUDGET sets one", part > 0.9],
    ["Memory left", size(about.left_bytes), about.left_of ? "of " + about.left_of.replace(/^the /, "") : ""],
    ["Epochs open", count(g.active_epoch_count), `${count(g.closing_epoch_count)} closed hold objects`],
    ["Rejected frees", count(g.rejected_frees_total), "of no live object", g.rejected_frees_total > 0],
    ["Purge failures", count(g.madvise_failures), "memory the system did not take", g.madvise_failures > 0]];
  $("tiles").replaceChildren(...tiles.map(([name, value, what, bad]) =>
    element("div", { class: bad ? "tile bad" : "tile" }, element("span", {}, name), element("b", {}, value), element("span", { class: "what" }, what))));
}

/* ---- labels -------------------------------------------------------------------------------------------------------- */

const growth = (n) => (n === null || n === undefined ? "-" : (n > 0 ? "+" : n < 0 ? "-" : "") + size(Math.abs(n)));
const older = (l) => Math.max(l.active_age_ns, l.closing_age_ns);
/* Its size classes, those with the most bytes first: of closed epochs where these hold any. */
function classesOf(l) {
  const state = l.closing_live_objects ? "closing" : "active", bytes = (c) => c[state + "_live_bytes"], objects = (c) => c[state + "_live_objects"];
  return l.classes.filter((c) => objects(c) > 0).sort((a, b) => bytes(b) - bytes(a)).map((c) => ({ name: c.class + (/^\d/.test(c.class) ? " B" : ""), objects: objects(c), bytes: bytes(c) }));
}
const mainClass = (l) => { const all = classesOf(l); return all.length ? all[0].name + (all.length > 1 ? ` + ${all.length - 1}` : "") : "-"; };
let contention = new Map(); /* by label, of the process */
const contended = (l, field) => (contention.has(l.label) ? count(contention.get(l.label)[field]) : "-");
const LABEL_COLUMNS = [["Label", (l) => l.label, "As the program gave it. (none): without one; (other): what is beyond the 64 that hold most."],
  ["Open", (l) => count(l.active_epochs), "Epochs that are open.", 1], ["Closing", (l) => count(l.closing_epochs), "Closed epochs that still hold objects.", 1],
  ["Spilled", (l) => (l.spilled_epochs ? size(l.spilled_bytes) : "-"), "Slabs of its epochs that are in zones: they take no memory.", 1],
  ["Objects", (l) => count(l.active_live_objects + l.closing_live_objects + l.spilled_live_objects), "Live objects.", 1],
  ["Live", (l) => size(l.active_live_bytes + l.closing_live_bytes + l.spilled_live_bytes), "Their bytes."],
  ["Slabs", (l) => size(l.active_rss_bytes + l.closing_rss_bytes), "Memory that they take, with what is empty in it."],
  ["A minute", (l) => growth(l.growth_bytes_per_minute), "By how much the live bytes of open epochs rise or fall a minute; - until two lows are known."],
  ["Oldest", (l) => (older(l) ? duration(older(l)) : "-"), "Age of the oldest epoch that holds objects.", 1],
  ["After close", (l) => (l.closing_live_objects ? duration(l.closing_for_ns) : "-"), "How long ago the first of those that hold objects was closed."],
  ["Class", mainClass, "The size class with the most live bytes, of closed epochs where these hold any, and how many more there are."],
  ["Lock waits", (l) => contended(l, "lock_waits"), "Waits for a lock of the allocator, by threads that worked in epochs of that label; of the whole process.", 1],
  ["Retries", (l) => contended(l, "cas_retries"), "Frees of another thread's objects that met another writer and tried again, likewise.", 1]];

const classOf = (i, wide) => (i ? "n" : "label") + (wide ? " wide-only" : "");

function explain(id, columns) {
  $(id).replaceChildren(...columns.flatMap(([name, what]) => [element("dt", {}, name), element("dd", {}, what)]));
}

function showLabels(stats) {
  const found = new Map(stats.findings.filter((f) => f.label !== undefined).map((f) => [(f.label || "(none)") + ofWhich(f), f.severity]));
  contention = new Map(stats.contention.map((c) => [c.label, c]));
  $("labels").tHead.rows[0].replaceChildren(...LABEL_COLUMNS.map(([name, , what, wide], i) => element("th", { class: classOf(i, wide), title: what }, name)));
  $("labels").tBodies[0].replaceChildren(...stats.labels.map((l) => element("tr", { class: found.get(l.label + ofWhich(l)) || "" }, ...LABEL_COLUMNS.map(([, show, , wide], i) =>
    element("td", { class: classOf(i, wide), title: i === 0 ? l.label : show === mainClass ? classesOf(l).map((c) => `${c.name}: ${count(c.objects)} objects, ${size(c.bytes)}`).join("\n") : "" }, show(l), i ? "" : badgeOf(l))))));
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------- */

let nodesBefore = null; /* what the last answer said: { taken, remote } by node */

function showNodes(list, taken) {
  const byNode = new Map();
  for (const n of list) {
    const sum = byNode.get(n.node) || { node: n.node, committed_bytes: 0, remote_frees_total: 0 };
    sum.committed_bytes += n.committed_bytes;
    sum.remote_frees_total += n.remote_frees_total;
    byNode.set(n.node, sum);
  }
  const nodes = [...byNode.values()];
  const all = nodes.reduce((sum, n) => sum + n.committed_bytes, 0);
  const rate = (n) => {
    const from = nodesBefore && nodesBefore.taken < taken ? nodesBefore.remote.get(n.node) : undefined;
    return from === undefined ? "-" : count(Math.round(((n.remote_frees_total - from) * 1e9) / (taken - nodesBefore.taken)));
  };
  $("nodes-section").hidden = nodes.length === 0;
  $("nodes").tBodies[0].replaceChildren(...nodes.map((n) => element("tr", {}, element("td", { class: "label" }, String(n.node)),
    ...[size(n.committed_bytes), all ? Math.round((100 * n.committed_bytes) / all) + " %" : "-", count(n.remote_frees_total), rate(n)].map((text) =>
      element("td", { class: "n" }, text)))));
  nodesBefore = { taken, remote: new Map(nodes.map((n) => [n.node, n.remote_frees_total])) };
}

/* ---- zones ---------------------------------------------------------------------------------------------------------- */

function showZones(zones) {
  $("zones-section").hidden = zones.length === 0;
  $("zones").tBodies[0].replaceChildren(...zones.map((z) => element("tr", {}, element("td", { class: "label", title: z.device }, z.device),
    ...[count(z.empty_zones), count(z.active_zones), count(z.full_zones), count(z.failed_zones), count(z.spilled_epochs), size(z.spilled_bytes), size(z.appended_bytes),
      size(z.payload_bytes), z.write_amplification.toFixed(3), z.reset_zones_total ? Math.round(100 * z.fill_at_reset) + " %" : "-", count(z.errors_total)].map((text, i) =>
      element("td", { class: (i === 3 && z.failed_zones) || (i === 10 && z.errors_total) ? "n bad" : "n" }, text)))));
}

/* ---- epochs that have ended ----------------------------------------------------------------------------------------- */

function showEnded(ended) {
  $("ended-section").hidden = ended.length === 0;
  $("ended").tBodies[0].replaceChildren(...ended.map((e) => element("tr", {}, element("td", { class: "label", title: e.label }, e.label || "(none)", badgeOf(e)),
    ...[duration(e.ended_for_ns) + " ago", duration(e.age_ns), size(e.returned_bytes), ...[e.rss_before_close, e.rss_after_close].map((n) => (n ? size(n) : "-"))].map((text) =>
      element("td", { class: "n" }, text)))));
}

/* ---- domains: a tree of labels ------------------------------------------------------------------------------------- */

function tree(list) {
  const byId = new Map(list.map((e) => [e.epoch_id, { e, slabs: 0, live: 0 }])), root = { children: new Map() };
  const parentOf = (n) => byId.get(n.e.parent_epoch_id);
  for (const n of byId.values())
    for (let at = n, steps = 0; at && steps < 64; at = parentOf(at), steps++) { at.slabs += n.e.estimated_rss_bytes; at.live += n.e.live_bytes; }
  const isParent = new Set(list.map((e) => e.parent_epoch_id));
  const nodeOf = (n, steps) => {
    if (n.node) return n.node;
    const parent = parentOf(n), above = parent && steps < 64 ? nodeOf(parent, steps + 1) : root, key = n.e.label || "(none)";
    if (!above.children.has(key)) above.children.set(key, { label: key, children: new Map(), open: 0, closing: 0, slabs: 0, live: 0, refused: 0, limited: 0, fullest: null });
    return (n.node = above.children.get(key));
  };
  for (const n of byId.values()) {
    if (!n.e.parent_epoch_id && !n.e.limit_bytes && !isParent.has(n.e.epoch_id)) continue;
    const node = nodeOf(n, 0);
    n.e.state === "active" ? node.open++ : node.closing++;
    node.slabs += n.slabs;
    node.live += n.live;
    node.refused += n.e.limit_failures_total;
    if (n.e.limit_bytes && (!node.fullest || n.slabs / n.e.limit_bytes > node.fullest.slabs / node.fullest.e.limit_bytes)) node.fullest = n;
  }
  return root;
}

function showDomains() {
  const rows = [], walk = (node, depth) => [...node.children.values()].sort((a, b) => b.slabs - a.slabs).forEach((n) => { rows.push([n, depth]); walk(n, depth + 1); });
  walk(tree(everything), 0);
  $("domains-section").hidden = rows.length === 0;
  $("domain-count").textContent = everything.length < epochTotal ? `of the ${count(everything.length)} largest epochs` : "";
  $("domains").tBodies[0].replaceChildren(...rows.slice(0, 200).map(([n, depth]) => {
    const name = element("td", { class: "label", title: n.label }, n.label, n.open + n.closing > 1 ? element("span", { class: "badge" }, "× " + count(n.open + n.closing)) : "");
    name.style.paddingLeft = 0.75 + 1.25 * depth + "rem";
    const limit = element("td", {}), part = n.fullest ? n.fullest.slabs / n.fullest.e.limit_bytes : 0, meter = element("i", { class: part > 0.9 ? "bad" : "" });
    meter.style.width = Math.min(100, 100 * part) + "%";
    n.fullest ? limit.append(element("span", { class: "meter" }, meter), `${Math.round(100 * part)} % of ${size(n.fullest.e.limit_bytes)}`) : limit.append("-");
    return element("tr", {}, name, element("td", { class: "n" }, count(n.open)), element("td", { class: "n" }, count(n.closing)), element("td", { class: "n" }, size(n.live)),
      element("td", { class: "n" }, size(n.slabs)), limit, element("td", { class: n.refused ? "n bad" : "n" }, count(n.refused)));
  }));
}

function showClasses(rows) {
  const byClass = new Map();
  for (const c of rows) {
    const sum = byClass.get(c.class) || { class: c.class, live_objects: 0, live_bytes: 0, committed_bytes: 0, slow_path_hits: 0 };
    for (const field of ["live_objects", "live_bytes", "committed_bytes", "slow_path_hits"]) sum[field] += c[field];
    byClass.set(c.class, sum);
  }
  const order = (c) => (/^\d/.test(c.class) ? Number(c.class) : c.class === "scope" ? 1e9 : 2e9);
  const list = [...byClass.values()].sort((a, b) => order(a) - order(b));
  $("classes").tBodies[0].replaceChildren(...list.map((c) => {
    const part = c.committed_bytes ? 100 * c.live_bytes / c.committed_bytes : 0, meter = element("i");
    meter.style.width = part + "%";
    return element("tr", {}, element("td", {}, c.class), element("td", { class: "n" }, count(c.live_objects)),
      element("td", { class: "n" }, size(c.live_bytes)), element("td", { class: "n" }, size(c.committed_bytes)),
      element("td", {}, element("span", { class: "meter" }, meter), part.toFixed(0) + " %"),
      element("td", { class: "n" }, count(c.slow_path_hits)));
  }));
}

const COLUMNS = [["label", "Label", (e) => e.label || "(none)", 0, "As the program gave it."], ["state", "State", (e) => e.state, 0, "Active: open. Closing: closed, and holds objects. Spilled: these are in zones."],
  ["age_ns", "Age", (e) => duration(e.age_ns), 1, "Since it was opened."],
  ["closing_for_ns", "After close", (e) => (e.state !== "active" ? duration(e.closing_for_ns) : "-"), 1, "Since it was closed."],
  ["live_objects", "Objects", (e) => count(e.live_objects), 1, "Live objects."], ["live_bytes", "Live bytes", (e) => size(e.live_bytes), 1, "Their bytes."],
  ["estimated_rss_bytes", "Slabs", (e) => size(e.estimated_rss_bytes), 1, "Memory that it takes."],
  ["reclaimable_bytes", "Reclaimable", (e) => size(e.reclaimable_bytes), 1, "Slabs without a live object: they go back at the close, or by slab_trim."]];
let sortBy = "estimated_rss_bytes", falling = true, epochs = [], rows = [], epochTotal = 0, oldest = null, largest = null, noted = [], stacks = { modules: [], sites: [] };

function showHeads() {
  $("epochs").querySelector("thead tr").replaceChildren(...COLUMNS.map(([key, name, , right, what]) => {
    const button = element("button", { type: "button" }, name + (key === sortBy ? (falling ? " ▼" : " ▲") : ""));
    button.addEventListener("click", () => {
      falling = key === sortBy ? !falling : !["label", "state"].includes(key);
      sortBy = key;
      showHeads();
      arrange();
      fetchEpochs();
    });
    return element("th", { class: right ? "n" : "", title: what, "aria-sort": key === sortBy ? (falling ? "descending" : "ascending") : "none" }, button);
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

/* ---- places ---------------------------------------------------------------------------------------------------------- */

let functions = {}, asked = "";

/* A frame as FILE+OFFSET, with its function where that is known. BigInt: addresses have more bits than a number. */
function place(frame) {
  const at = BigInt(frame), m = stacks.modules.find((m) => at >= BigInt(m.start) && at < BigInt(m.end));
  const offset = m ? `+0x${(at - BigInt(m.base)).toString(16)}` : "";
  return functions[frame] && m ? `${functions[frame]} (${m.path.split("/").pop()}${offset})` : m ? m.path + offset : frame;
}

/* Asked again only where there are frames that there were not. */
async function fetchFunctions() {
  const all = [...new Set(stacks.sites.flatMap((s) => s.frames))].sort().join();
  if (all === asked || all === "") return;
  asked = all;
  try { functions = await getJson("/functions.json"); } catch (e) { /* then addresses */ }
}

/* ---- who holds what -------------------------------------------------------------------------------------------------- */

function showHolders(holders) {
  const way = (f) => f.frames.map((frame) => functions[frame] || place(frame)).join(" › ") || "(no code of the program itself)";
  const row = (by, h) => element("tr", {}, element("td", { class: "label", title: by }, by, badgeOf(h)),
    ...[size(h.live_bytes), count(h.live_objects), count(h.samples)].map((text) => element("td", { class: "n" }, text)));
  $("holders-section").hidden = holders.samples === 0;
  $("holders-samples").textContent = `from ${count(holders.samples)} samples`;
  $("holders").tBodies[0].replaceChildren(...holders.functions.map((f) => row(way(f), f)), ...holders.threads.map((t) => row("thread " + t.name, t)));
}

/* The largest sampled stacks of the epochs with its label and state. */
function stacksOf(e) {
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
      element("td", { class: right ? "n" : key === "label" ? "label" : "" }, show(e), key === "label" ? badgeOf(e) : "")));
    if (marks.length) tr.firstChild.append(...marks.map((m) => element("span", { class: "badge" }, m)));
    tr.firstChild.title = (e.label || "(none)") + ", epoch " + e.epoch_id + (ofWhich(e) ? ", allocator " + ofWhich(e) : "") + stacksOf(e);
    return tr;
  });
  box.querySelector("tbody").replaceChildren(pad(from), ...list, pad(rows.length - to));
}

/* ---- the beat ------------------------------------------------------------------------------------------------------------- */

let paused = false, beats = 0, fetching = false, again = false, about = {};

async function getJson(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!answer.ok) throw new Error(path + ": " + answer.status);
  return answer.json();
}

let fetches = 0, everything = []; /* as many as there are, of some beats ago */

/* The few that matter every second; all there are, if something is looked for or there are domains, every fifth; else now and then, to
   see whether there are domains. */
async function fetchEpochs() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  again = false;
  try {
    const all = fetches++ % 30 === 0 || $("filter").value.trim() !== "" || !$("domains-section").hidden || $("epochs").scrollTop > 0 || !["estimated_rss_bytes", "live_bytes", "age_ns"].includes(sortBy) || !falling;
    const answer = await getJson(`/epochs.json?sort=${sortBy === "age_ns" ? "age" : "bytes"}&limit=${all ? MANY : FEW}`);
    epochs = answer.epochs;
    epochTotal = answer.epoch_count;
    arrange();
    if (all || epochs.length === epochTotal) {
      everything = epochs;
      showDomains();
    }
  } catch (e) { /* the next beat says so */ } finally { fetching = false; }
  if (again) fetchEpochs();
}

async function fetchAbout() {
  about = await getJson("/process.json");
  const words = [about.program, `process ${about.pid}`, about.uptime_s ? "up " + duration(about.uptime_s * 1e9) : "",
    about.cgroup_limit_bytes ? "cgroup limit " + size(about.cgroup_limit_bytes) : "no cgroup limit"];
  $("who").textContent = words.filter(Boolean).join(" · ");
  document.title = `${about.program} ${about.pid} · temporal-slab`;
}

async function beat() {
  const started = Date.now();
  if (!paused) {
    try {
      if (beats % 5 === 0) await fetchAbout();
      if (beats === 0) await fetchHistory();
      const stats = await getJson("/stats.json");
      remember(stats);
      if (!purged && history[history.length - 1].purged > 0) rebuild();
      if (chooseLabels()) stacked();
      fill();
      several = stats.allocators.length > 1;
      noted = stats.epochs;
      stacks = stats.stacks;
      await fetchFunctions();
      showFindings(stats);
      showHolders(stats.holders);
      showTiles(stats.global);
      showNodes(stats.nodes, stats.taken_ns);
      showZones(stats.zones);
      showEnded(stats.ended);
      showLabels(stats);
      showClasses(stats.classes);
      $("sampling").textContent = stats.samples.sample_rate ? `one in ${stats.samples.sample_rate}` : "";
      $("state").textContent = "live";
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
explain("labels-explained", LABEL_COLUMNS.map(([name, , what]) => [name, what]));
explain("epochs-explained", COLUMNS.map(([, name, , , what]) => [name, what]));
applyTheme();
beat();
