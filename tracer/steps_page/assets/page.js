"use strict";
// The page of tracer.visualize. All it shows is in the JSON of #data; nothing is fetched.
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const state = {step: 1, at: 0, call: 0, third: 0, playing: null, shownCapture: null};

// ---- small helpers ----------------------------------------------------------------------------------------------
function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return made;
}
function s(tag, props, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props || {})) made.setAttribute(name, value);
  made.append(...children.flat());
  return made;
}
const code = text => h("code", {}, text);
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : what.endsWith("s") ? "es" : "s"}`;
function panel(title, note, ...body) {
  return h("section", {class: "panel", "aria-label": title}, h("h2", {}, title, note ? h("small", {}, note) : null), ...body);
}
function scroller(...body) { return h("div", {class: "scroll", tabindex: "0"}, ...body); }
function bringIntoView(box, element) {
  if (!element) return;
  if (state.step === 3 && innerWidth <= 860) return element.scrollIntoView({block: "center"});
  if (box.scrollHeight <= box.clientHeight) return;
  const top = element.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;
  box.scrollTop = Math.max(0, top - box.clientHeight / 2 + element.offsetHeight / 2);
}
function familyOf(stop) {
  const ins = D.codes[stop.code].code[stop.at];
  return ins ? ins.fam : "";
}
const instruction = stop => D.codes[stop.code].code[stop.at];
const captureOf = stop => D.captures[stop.capture];
const opname = ins => h("span", {class: `opname ${ins.fam ? "fam-" + ins.fam : "fam-jump"}`}, ins.op);

// ---- where the stops are ----------------------------------------------------------------------------------------
const growing = D.stops.map((stop, i) => i).filter(i => {
  const stop = D.stops[i], a = stop.added;
  return !["step", "in", "out"].includes(stop.k) || (a && (a.nodes || a.guards || a.constants || a.gone));
});
const thirds = D.calls.map(call => {
  const found = [{k: "call"}];
  call.visits.forEach((visit, v) => {
    found.push({k: "visit", v});
    visit.regions.forEach((region, r) => {
      const stop = region.guards.findIndex(g => !g.ok);
      const asked = stop < 0 ? region.guards.length : stop + 1;
      for (let g = 0; g < asked; g++) found.push({k: "guard", v, r, g});
      if (stop >= 0) found.push({k: "refused", v, r});
    });
    found.push({k: visit.hit ? "hit" : "miss", v});
    if (!visit.hit) found.push({k: "decided", v});
  });
  found.push({k: "done"});
  return found;
});

function positions() {
  if (state.step === 1) return D.stops.length;
  if (state.step === 2) return growing.length;
  return thirds.length ? thirds[state.call].length : 0;
}
function position() {
  if (state.step === 1) return state.at;
  if (state.step === 2) { let n = 0; growing.forEach((at, i) => { if (at <= state.at) n = i; }); return n; }
  return state.third;
}
function go(n) {
  n = Math.max(0, Math.min(n, positions() - 1));
  if (state.step === 1) state.at = n;
  else if (state.step === 2) state.at = growing[n];
  else state.third = n;
  state.shownCapture = null;
  render();
}

// ---- words ------------------------------------------------------------------------------------------------------
const value = n => D.values[n];
const short = n => { const v = value(n); return v.n || (v.k === "tensor" && v.s) || v.t; };
// The same object, also where it was only looked at in between.
const same = (a, b) => a === b || (a !== undefined && b !== undefined && value(a).s !== "" && value(a).s === value(b).s && value(a).t === value(b).t);
function effect(stop) {
  const ins = instruction(stop), before = stop.before && stop.before.stack, after = stop.after && stop.after.stack;
  if (stop.k === "in") return ["calls a Python function, which is read next: ", code(short(callee(stop)))];
  if (stop.k === "out") return ["the call is over; it gave ", code(after && after.length ? short(after[after.length - 1]) : "nothing")];
  if (!after) return ["cannot be captured"];
  const top = after.length ? code(short(after[after.length - 1])) : "";
  if (ins.op === "LOAD_CONST") return ["pushes the constant ", top];
  if (ins.op.startsWith("LOAD_FAST")) return ["pushes the local ", code(ins.arg)];
  if (ins.op === "LOAD_GLOBAL") return ["looks up the global ", code(ins.arg), " and pushes it"];
  if (ins.op === "LOAD_ATTR") return ["replaces the top by its attribute ", code("." + ins.arg)];
  if (ins.op.startsWith("LOAD_")) return ["pushes ", top];
  if (ins.op === "STORE_FAST") return ["pops the top into the local ", code(ins.arg)];
  if (ins.op.startsWith("STORE_")) return ["pops a value and stores it", ins.arg ? " in " : "", ins.arg ? code(ins.arg) : ""];
  if (ins.op === "BINARY_OP" || ins.op === "COMPARE_OP") {
    const [a, b] = before.slice(-2);
    return ["takes ", code(short(a)), " and ", code(short(b)), ", pushes ", code(`${short(a)} ${ins.arg} ${short(b)}`), " as ", top];
  }
  if (ins.op === "BINARY_SUBSCR") return ["takes a container and a key, pushes the item ", top];
  if (ins.op.startsWith("CALL")) return ["calls ", code(short(callee(stop))), " and pushes the result ", top];
  if (ins.op === "PUSH_NULL") return ["pushes a NULL, which a call needs below its arguments"];
  if (ins.op === "POP_TOP") return ["drops the top"];
  if (ins.op === "FOR_ITER") return after.length > before.length ? ["pushes the next item ", top] : ["the iterator is at its end: the loop is left"];
  if (ins.op === "GET_ITER") return ["makes an iterator of the top"];
  if (ins.op === "RETURN_VALUE") return ["returns ", before.length ? code(short(before[before.length - 1])) : "the top"];
  if (ins.op.startsWith("POP_JUMP")) return ["pops a bool and goes on ", ins.arg, " or to the next instruction"];
  if (ins.op.startsWith("JUMP")) return ["goes on at instruction ", code(ins.arg.replace("to ", ""))];
  if (ins.op.startsWith("BUILD_")) return ["builds ", top, " from the stack"];
  if (ins.op === "NOP") return ["does nothing"];
  const grows = after.length - before.length;
  return grows > 0 ? ["pushes ", top] : grows < 0 ? ["takes from the stack"] : ["changes the top: ", top];
}
function callee(stop) {
  const stack = stop.before ? stop.before.stack : [], ins = instruction(stop);
  let below = ins.op === "CALL" ? Number(ins.arg) : ins.op === "CALL_KW" ? Number(ins.arg) + 1 : 1;
  for (const i of [stack.length - below - 1, stack.length - below - 2])
    if (i >= 0 && value(stack[i]).k !== "NULL" && /function|method|class|callable|type|module|builtin/i.test(value(stack[i]).k + value(stack[i]).t)) return stack[i];
  for (const i of [stack.length - below - 2, stack.length - below - 1]) if (i >= 0 && value(stack[i]).k !== "NULL") return stack[i];
  return stack[0];
}
function sayStop(stop) {
  const c = captureOf(stop);
  if (stop.k === "begin") return stop.capture === 0
    ? ["The capture begins at instruction ", code(String(c.entry)), ": the bytecode is read, and nothing is run for real."]
    : ["The original bytecode ran on by itself; the next capture begins at instruction ", code(String(c.entry)), c.function === D.function ? "." : [" of ", code(c.function), "."]].flat();
  if (stop.k === "broke") return ["Graph break: ", c.broke.title, c.broke.details ? `: ${c.broke.details}` : "", ". The region ends in front of it."];
  if (stop.k === "restart") return [`After ${plural(stop.read, "instruction")} the capture begins anew: ${stop.reason}.`];
  if (stop.k === "end") return c.landing === null || !c.region ? ["The capture is over; there was nothing here that is worth a region."]
    : ["The capture is over: ", code(`region ${c.region}`), " ends at instruction ", code(String(c.landing)), ", where the original bytecode goes on."];
  return [code(`${instruction(stop).op} ${instruction(stop).arg}`.trim()), " ", ...effect(stop), "."];
}

// ---- parts of the views -----------------------------------------------------------------------------------------
function sourceView(codeNumber, at) {
  const c = D.codes[codeNumber], ins = at === null ? null : c.code[at];
  const [line, endLine, from, to] = ins ? ins.pos : [null, null, null, null];
  const rows = [];
  c.source.forEach((text, i) => {
    const number = c.first + i, on = line !== null && number >= line && number <= (endLine || line);
    let shown = [text || " "];
    if (on && line === endLine && from !== null && to !== null) {
      const bytes = new TextEncoder().encode(text), part = (a, b) => new TextDecoder().decode(bytes.slice(a, b));
      shown = [part(0, from), h("mark", {}, part(from, to)), part(to)];
    }
    rows.push(h("i", {class: on ? "on" : ""}, String(number)), h("code", {class: on ? "on" : ""}, ...shown));
  });
  if (!rows.length) rows.push(h("i", {}), h("code", {}, "(the source is not to be had)"));
  const box = scroller(h("div", {class: "src"}, ...rows));
  queue.push(() => bringIntoView(box, box.querySelector("code.on")));
  return panel("Source", `${c.file}:${c.first} ${c.name}`, box);
}
function marksOf(codeNumber) {
  const marks = {};
  D.captures.forEach((c, i) => {
    if (c.code !== codeNumber || !c.region) return;
    (marks[c.entry] = marks[c.entry] || []).push(["entry", `entry`]);
    (marks[c.landing] = marks[c.landing] || []).push(c.broke ? ["break", "break"] : ["landing", "landing"]);
  });
  return marks;
}
function codeView(stop) {
  const codeNumber = stop.code === undefined ? captureOf(stop).code : stop.code;
  const at = stop.code === undefined ? (stop.k === "end" ? captureOf(stop).landing : captureOf(stop).entry) : stop.at;
  const seen = new Set(), marks = marksOf(codeNumber);
  for (let i = 0; i < shownAt; i++) if (D.stops[i].code === codeNumber) seen.add(D.stops[i].at);
  let before = null;
  const rows = D.codes[codeNumber].code.map(ins => {
    const fresh = ins.pos[0] !== before; before = ins.pos[0];
    return h("div", {class: `ins${ins.i === at ? " on" : ""}${seen.has(ins.i) ? " seen" : ""}`, "aria-current": ins.i === at ? "step" : null, title: `line ${ins.pos[0]}, offset ${ins.off}`},
      h("i", {}, String(ins.i)), h("span", {}, ...(marks[ins.i] || []).map(([cls, text]) => h("b", {class: `tag ${cls}`}, text)), opname(ins), " ", h("em", {}, ins.arg)));
  });
  const box = scroller(...rows);
  queue.push(() => bringIntoView(box, box.querySelector(".on")));
  return panel("Bytecode", "canonical instructions", box);
}
function valueChip(n, extra) {
  if (n === undefined) return h("span", {class: "empty"}, "–");
  const v = value(n), tensor = v.k === "tensor" || v.n;
  const named = v.n || (v.k === "tensor" && v.s), text = named || v.t;
  const more = named ? v.t : v.s && v.s !== v.t && !v.t.includes(v.s) && !v.s.startsWith("k_") ? v.s : "";
  return h("span", {class: `val${tensor ? " t" : ""}${v.k === "NULL" ? " null" : ""}${extra || ""}`, title: `${v.k}: ${v.t}${v.s ? `, found at ${v.s}` : ""}`}, text, more ? h("small", {}, "  " + more) : null);
}
function stackView(stack, other, cls) {
  let kept = 0;
  if (other) while (kept < stack.length && kept < other.length && same(stack[kept], other[kept])) kept++;
  const chips = stack.map((n, i) => valueChip(n, other && i >= kept ? cls : "")).reverse();
  return h("div", {class: "stk"}, ...(chips.length ? chips : [h("span", {class: "empty"}, "empty")]));
}
function stateView(stop) {
  if (!stop.before && !stop.after) return panel("State", "", h("div", {class: "pad"}, wholeBox(stop)));
  const before = stop.k === "out" ? null : stop.before, after = stop.after;
  const names = [...new Set([...Object.keys(before ? before.locals : {}), ...Object.keys(after ? after.locals : {})])];
  const rows = names.map(name => {
    const b = before && before.locals[name], a = after && after.locals[name];
    const changed = before && after && !same(a, b);
    return h("tr", {}, h("th", {scope: "row"}, name), h("td", {}, before ? valueChip(b, "") : ""), h("td", {}, after ? valueChip(a, changed ? " new" : "") : ""));
  });
  const ins = instruction(stop);
  const head = h("div", {class: "now"}, opname(ins), h("span", {class: "arg"}, ins.arg),
    h("span", {class: "frame"}, stop.depth ? `in ${D.codes[stop.code].name}, ${plural(stop.depth, "call")} deep` : `in ${D.codes[stop.code].name}`));
  const empty = text => h("div", {class: "stk"}, h("span", {class: "empty"}, text));
  const body = scroller(h("div", {class: "pad"},
    stop.k === "broke" ? wholeBox(stop) : null,
    stop.k === "broke" ? h("p", {class: "sub", style: "margin-top:14px"}, "What the original bytecode finds here") : null,
    h("div", {class: "two"},
      h("div", {}, h("p", {class: "sub"}, "Stack before"), before ? stackView(before.stack, after && after.stack, " gone") : empty("see the call")),
      h("div", {}, h("p", {class: "sub"}, "Stack after"), after ? stackView(after.stack, before && before.stack, " new") : empty(stop.k === "in" ? "the callee runs first" : "not reached"))),
    h("table", {class: "locals", style: "margin-top:12px"}, h("thead", {}, h("tr", {}, h("th", {}, "Local"), h("th", {}, "before"), h("th", {}, "after"))), h("tbody", {}, ...rows)),
    names.length ? null : h("p", {class: "empty"}, "no locals are bound"),
    addedView(stop)));
  return panel("State", "before and after the instruction", head, body);
}
function wholeBox(stop) {
  const c = captureOf(stop);
  if (stop.k === "begin") return h("div", {class: "box info"}, h("h3", {}, stop.capture ? "A next capture begins" : "The capture begins"),
    h("p", {}, stop.capture ? `What could not be captured ran as ordinary bytecode, in the user's own frame. Behind it, at instruction ${c.entry}, the next region begins.`
      : "From here on the bytecode is read instruction by instruction. Tensors are placeholders: shapes and dtypes, no numbers."));
  if (stop.k === "broke") return h("div", {class: "box bad"}, h("h3", {}, `Graph break: ${c.broke.title}`),
    h("p", {}, c.broke.details), h("dl", {}, h("dt", {}, "where"), h("dd", {}, c.broke.stack.join("  →  ") || "the entry itself"), ...(c.broke.hint ? [h("dt", {}, "hint"), h("dd", {}, c.broke.hint)] : [])));
  if (stop.k === "restart") return h("div", {class: "box warn"}, h("h3", {}, "The capture begins anew"), h("p", {}, `${stop.reason}. ${plural(stop.read, "instruction")} were read for nothing.`));
  if (c.landing === null || !c.region) return h("div", {class: "box warn"}, h("h3", {}, "Nothing is compiled here"), h("p", {}, c.reason || "The capture found nothing worth a region: the original bytecode runs."));
  const kept = c.nodes.filter(n => n.kept && n.op !== "placeholder" && n.op !== "get_attr").length;
  return h("div", {class: "box ok"}, h("h3", {}, `Region ${c.region} is compiled`),
    h("dl", {}, h("dt", {}, "graph"), h("dd", {}, plural(kept, "operator")), h("dt", {}, "guards"), h("dd", {}, String((c.final_guards || []).length)),
      h("dt", {}, "ends at"), h("dd", {}, `instruction ${c.landing}${c.broke ? ", a graph break" : ""}`), ...(c.attempts > 1 ? [h("dt", {}, "attempts"), h("dd", {}, String(c.attempts))] : [])));
}
function addedView(stop) {
  const a = stop.added;
  if (!a) return null;
  const c = captureOf(stop), chips = [];
  for (const i of a.guards || []) chips.push(guardChip(c.guards[i]));
  for (const i of a.constants || []) chips.push(constantChip(c.constants[i]));
  for (const i of a.nodes || []) chips.push(nodeChip(c.nodes[i]));
  for (const i of a.gone || []) chips.push(h("div", {class: "chip gone"}, h("b", {}, "taken back"), h("span", {}, c.nodes[i].text)));
  return h("div", {style: "margin-top:14px"}, h("p", {class: "sub"}, "What this instruction added"), h("div", {class: "added"}, ...chips));
}
const guardChip = (g, cls) => h("div", {class: `chip guard${cls || ""}`}, h("b", {}, "guard"), h("span", {}, g.text), h("small", {}, g.line));
const constantChip = (c, cls) => h("div", {class: `chip constant${cls || ""}`}, h("b", {}, "constant"), h("span", {}, c.name), h("small", {}, c.text));
const nodeChip = (n, cls) => h("div", {class: `chip node${cls || ""}`}, h("b", {}, n.op === "placeholder" ? "input" : "node"), h("span", {}, n.text), h("small", {}, n.result));

// ---- step 2: the graph ------------------------------------------------------------------------------------------
const layouts = new Map();
function layout(number) {
  if (layouts.has(number)) return layouts.get(number);
  const c = D.captures[number], nodes = c.nodes.map((n, i) => ({...n, i})), byName = new Map(), users = new Map();
  nodes.forEach(n => { byName.set(n.name, n); });
  nodes.forEach(n => n.inputs.forEach(name => { if (byName.has(name)) (users.get(name) || users.set(name, []).get(name)).push(n); }));
  const isInput = n => n.op === "placeholder" || n.op === "get_attr";
  nodes.forEach(n => { n.layer = isInput(n) ? 0 : 1 + Math.max(-1, ...n.inputs.map(name => byName.has(name) ? byName.get(name).layer : -1)); });
  nodes.filter(n => !isInput(n)).forEach(n => { if (!n.inputs.length) n.layer = Math.max(1, n.layer); });
  nodes.filter(isInput).forEach(n => { const u = users.get(n.name) || []; n.layer = u.length ? Math.max(0, Math.min(...u.map(x => x.layer)) - 1) : 0; });
  const layers = [];
  nodes.forEach(n => (layers[n.layer] = layers[n.layer] || []).push(n));
  nodes.forEach(n => { n.short = n.op === "placeholder" ? (n.label.length > 26 ? "…" + n.label.slice(-25) : n.label) : n.text.length > 36 ? n.text.slice(0, 35) + "…" : n.text; n.w = Math.max(84, 24 + 7.6 * Math.max(n.short.length, n.result.length * .84)); });
  const width = Math.max(360, ...layers.filter(Boolean).map(l => l.reduce((sum, n) => sum + n.w + 26, 0))) + 70;
  let y = 22;
  for (const row of layers) {
    if (!row) continue;
    const wanted = n => { const from = n.inputs.map(name => byName.get(name)).filter(p => p && p.x !== undefined); return from.length ? from.reduce((sum, p) => sum + p.x, 0) / from.length : width / 2; };
    const made = row.filter(n => !isInput(n)).sort((a, b) => wanted(a) - wanted(b) || a.i - b.i);
    row.filter(isInput).forEach((n, k) => k % 2 || !row.some(m => !isInput(m)) ? made.push(n) : made.unshift(n));
    row.splice(0, row.length, ...made);
    let x = (width - row.reduce((sum, n) => sum + n.w + 26, -26)) / 2;
    for (const n of row) { n.x = x + n.w / 2; n.y = y; x += n.w + 26; }
    y += 76;
  }
  const made = {nodes, byName, width, height: y, c};
  layouts.set(number, made);
  return made;
}
function graphAt(number, upTo) {
  const seen = new Set(), gone = new Set(); let broke = false, ended = false, fresh = null;
  for (let i = 0; i <= upTo; i++) {
    const stop = D.stops[i];
    if (stop.capture !== number) continue;
    const a = stop.added || {};
    (a.nodes || []).forEach(n => seen.add(n)); (a.gone || []).forEach(n => gone.add(n));
    if (stop.k === "broke") broke = true;
    if (stop.k === "end") ended = true;
    fresh = i === upTo ? new Set(a.nodes || []) : null;
  }
  return {seen, gone, broke, ended, fresh: fresh || new Set()};
}
function nodeShape(n, cls) {
  const kind = n.op === "placeholder" || n.op === "get_attr" || n.op === "output" ? n.op : "call";
  return s("g", {class: `node ${kind} ${cls}`, transform: `translate(${n.x - n.w / 2},${n.y})`, "data-node": n.name},
    s("title", {}, document.createTextNode(`${n.text}  ${n.result}`)),
    s("rect", {width: n.w, height: 44, rx: 10}),
    s("text", {x: n.w / 2, y: n.result ? 19 : 27, "text-anchor": "middle"}, document.createTextNode(n.short)),
    n.result ? s("text", {class: "res", x: n.w / 2, y: 35, "text-anchor": "middle"}, document.createTextNode(n.result)) : "");
}
// Straight down to the next layer; past other nodes on the side where there is room.
function laneOf(L, from, to) {
  const between = L.nodes.filter(n => n.layer > from.layer && n.layer < to.layer);
  if (!between.some(n => Math.abs(n.x - (from.x + to.x) / 2) < n.w / 2 + Math.abs(from.x - to.x) / 2 + 6)) return null;
  return from.x >= to.x ? Math.max(from.x, ...between.map(n => n.x + n.w / 2 + 16)) : Math.min(from.x, ...between.map(n => n.x - n.w / 2 - 16));
}
function edgePath(L, from, to) {
  // where it arrives: from left to right, as the edges come
  const arriving = [...new Set(to.inputs)].filter(name => L.byName.has(name)).map(name => { const n = L.byName.get(name), lane = laneOf(L, n, to); return {name, lane, x: lane === null ? n.x : lane}; }).sort((a, b) => a.x - b.x);
  const k = arriving.findIndex(a => a.name === from.name), lane = arriving[k].lane;
  const x2 = to.x + (k - (arriving.length - 1) / 2) * Math.min(22, (to.w - 30) / arriving.length), y1 = from.y + 44, y2 = to.y, mid = (y1 + y2) / 2;
  if (lane === null) return `M${from.x},${y1} C${from.x},${mid} ${x2},${mid} ${x2},${y2}`;
  return `M${from.x},${y1} C${from.x},${y1 + 22} ${lane},${y1 + 10} ${lane},${y1 + 42} L${lane},${y2 - 34} C${lane},${y2 - 6} ${x2},${y2 - 30} ${x2},${y2}`;
}
function graphView(number, upTo, whole) {
  const L = layout(number), at = whole ? {seen: new Set(L.nodes.map(n => n.i)), gone: new Set(), broke: false, ended: true, fresh: new Set()} : graphAt(number, upTo);
  const shown = L.nodes.filter(n => at.seen.has(n.i) && !(whole && !n.kept)), parts = [];
  const bottom = Math.max(0, ...shown.filter(n => !at.gone.has(n.i)).map(n => n.y + 44));
  const newest = shown.filter(n => !at.gone.has(n.i)).sort((a, b) => a.y - b.y).pop();
  let height = Math.max(L.height, 120), width = L.width;
  for (const n of shown) for (const name of n.inputs) {
    const from = L.byName.get(name);
    if (!from || !at.seen.has(from.i)) continue;
    const cls = (at.fresh.has(n.i) ? " fresh" : "") + (at.gone.has(n.i) ? " gone" : "");
    parts.push(s("path", {class: `edge${cls}`, d: edgePath(L, from, n)}));
  }
  shown.forEach((n, k) => {
    const cls = (at.fresh.has(n.i) ? "fresh " : n === newest ? "newest " : "") + (at.gone.has(n.i) ? "gone " : "") + (at.ended && !n.kept && !at.gone.has(n.i) ? "unused" : "");
    const shape = nodeShape(n, cls); shape.style.setProperty("--n", k); parts.push(shape);
  });
  if (at.broke) {
    const text = `✂  graph break: ${L.c.broke.title}`, w = Math.max(190, text.length * 7.4 + 26), y = bottom + 30;
    width = Math.max(width, w + 40);
    parts.push(s("g", {class: "cut"}, s("line", {x1: 8, x2: width - 8, y1: y, y2: y}), s("rect", {x: width / 2 - w / 2, y: y - 15, width: w, height: 30, rx: 9}),
      s("text", {x: width / 2, y: y + 5, "text-anchor": "middle"}, document.createTextNode(text))));
    height = Math.max(height, y + 34);
  }
  const svg = s("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `graph of capture ${number + 1}, ${plural(shown.length, "node")}`}, ...parts);
  const box = h("div", {class: `graph${whole ? " run" : ""}`, tabindex: "0"}, svg);
  queue.push(() => {
    const scale = Math.max(.6, Math.min(1, box.clientWidth / width));
    svg.setAttribute("width", width * scale); svg.setAttribute("height", height * scale);
    const target = box.querySelector(".cut line") || [...box.querySelectorAll("g.fresh")].pop() || (!whole && box.querySelector("g.newest"));
    if (target) { const b = target.getBoundingClientRect(), o = box.getBoundingClientRect(); box.scrollTop += b.top - o.top - o.height * .6; box.scrollLeft += b.left + b.width / 2 - o.left - o.width / 2; }
    else box.scrollLeft = (width * scale - box.clientWidth) / 2;
  });
  if (!shown.length && !at.broke) box.append(h("p", {class: "empty", style: "position:absolute;padding:18px"}, "No node yet: the graph begins with the first operator on tensors."));
  return box;
}
function captureTabs(current) {
  return h("div", {class: "tabs"}, ...D.captures.map((c, i) => h("button", {class: i === current ? "on" : "", title: `${c.function}, from instruction ${c.entry}`,
    onclick: () => { const first = D.stops.map((x, n) => n).filter(n => D.stops[n].capture === i).pop(); state.at = first; render(); }},
    c.region ? `region ${c.region}` : `capture ${i + 1}`)));
}
function collectedView(stop) {
  const c = captureOf(stop), seen = {guards: [], constants: []}, gone = new Set();
  for (let i = 0; i <= shownAt; i++) {
    const t = D.stops[i];
    if (t.capture !== stop.capture || !t.added) continue;
    for (const what of ["guards", "constants"]) for (const n of t.added[what] || []) seen[what].push([n, i === shownAt]);
    (t.added.gone_guards || []).forEach(n => gone.add(n));
  }
  const ended = stop.k === "end" && c.region;
  const guards = ended ? (c.final_guards || []).map(g => guardChip(g)) : seen.guards.map(([n, fresh]) => guardChip(c.guards[n], (fresh ? " fresh" : "") + (gone.has(n) ? " gone" : ""))).reverse();
  const constants = seen.constants.map(([n, fresh]) => constantChip(c.constants[n], fresh ? " fresh" : "")).reverse();
  return h("div", {class: "stackpanel"},
    Object.assign(panel("Guards", ended ? `${guards.length} stay` : `${guards.length}, newest first`, scroller(h("div", {class: "pad added"}, ...(guards.length ? guards : [h("p", {class: "empty"}, "none yet")])))), {style: "flex:2 1 0"}),
    Object.assign(panel("Constants", String(constants.length), scroller(h("div", {class: "pad added"}, ...(constants.length ? constants : [h("p", {class: "empty"}, "none yet")])))), {style: "flex:1 1 0"}));
}

// ---- step 3: later calls ----------------------------------------------------------------------------------------
function sayThird(stop, call) {
  const visit = stop.v === undefined ? null : call.visits[stop.v];
  if (stop.k === "call") return ["A later call, with ", call.title === "the same arguments again" ? "the same arguments again" : `${call.title}`, ": ", code(call.arguments)];
  if (stop.k === "visit") return ["The call comes to the entry at line ", code(String(visit.line)), ", whose slot tries ", visit.regions.length ? plural(visit.regions.length, "region") : "nothing: there is no region yet", "."];
  if (stop.k === "guard") { const g = visit.regions[stop.r].guards[stop.g]; const bad = (g.parts || []).find(p => !p.ok);
    return [g.ok ? "Holds: " : "Does not hold: ", code(g.text), bad ? [", it saw ", code(`${bad.name} ${bad.seen}`), " where ", code(bad.expected), " was"] : ""].flat(); }
  if (stop.k === "refused") { const r = visit.regions[stop.r]; return [code(`region ${r.number}`), ` does not fit: ${r.held} of ${r.of} guards hold. The others are asked too, to find the nearest region.`]; }
  if (stop.k === "hit") return ["Hit: all guards hold, so ", code(`region ${visit.ran}`), " runs, and the bytecode goes on where it ends."];
  if (stop.k === "miss") return ["Miss: no region fits", visit.record ? [". The guard that failed: ", code(visit.record.guard)] : "."].flat();
  if (stop.k === "decided") return visit.decision === "recompile" || visit.decision === "capture" ? ["It is captured again: ", code(`region ${visit.made}`), " joins the cache and runs in this very call."]
    : [`This call runs plain from here: ${visit.reason || "there is nothing to compile"}.`];
  return [call.raised ? `The call raised ${call.raised}.` : "The call is over."];
}
function thirdView() {
  const call = D.calls[state.call], stops = thirds[state.call], stop = stops[state.third];
  const progress = stops.slice(0, state.third + 1), at = stop.v === undefined ? (stop.k === "done" ? call.visits.length - 1 : -1) : stop.v;
  const head = h("div", {class: "call-head"}, ...D.calls.map((c, i) => h("button", {class: i === state.call ? "on" : "", "aria-pressed": String(i === state.call), onclick: () => { state.call = i; state.third = 0; render(); }}, c.title)),
    h("code", {}, `${D.function}(${call.arguments})`));
  const visits = call.visits.map((visit, v) => v <= at ? visitView(visit, v, stop, progress) : null);
  const box = scroller(...(visits.some(Boolean) ? visits : [h("p", {class: "empty pad"}, "The call begins. Step on to see the guards asked one by one.")]));
  box.classList.add("long");
  queue.push(() => bringIntoView(box, box.querySelector(".now-asked") || box.querySelector(".visit:last-of-type .box") || box.querySelector(".visit:last-of-type")));
  const visit = at >= 0 ? call.visits[at] : null;
  return [panel("Guards, one by one", "as the slot's text asks them", head, box), outcomeView(call, visit, stop)];
}
function visitView(visit, v, stop, progress) {
  const inThis = progress.filter(p => p.v === v), current = stop.v === v;
  const done = !current || ["hit", "miss", "decided"].includes(stop.k);
  const regions = visit.regions.map((region, r) => {
    const ticked = done ? region.guards.length : inThis.filter(p => p.k === "guard" && p.r === r).length;
    if (!ticked && !inThis.some(p => p.r === r) && !(current && stop.k === "visit" && r === 0)) return null;
    const refused = done || inThis.some(p => p.k === "refused" && p.r === r), first = region.guards.findIndex(g => !g.ok);
    return h("div", {}, h("h3", {}, `region ${region.number} `, h("small", {}, `${plural(region.guards.length, "guard")}${refused && first >= 0 ? `, ${region.held} of ${region.of} hold` : ""}`)),
      ...region.guards.map((g, i) => guardRow(g, i < ticked && (first < 0 || i <= first) ? "asked" : refused && first >= 0 && i > first ? "later" : "wait", current && stop.k === "guard" && stop.r === r && stop.g === i)));
  });
  const box = !current && visit.hit || current && stop.k === "hit" ? h("div", {class: "box ok"}, h("h3", {}, `Hit: region ${visit.ran} runs`))
    : !visit.hit && (!current || ["miss", "decided"].includes(stop.k)) ? h("div", {class: "box bad"}, h("h3", {}, "Miss: no region fits")) : null;
  return h("div", {class: "visit"}, h("h3", {}, `${visit.function}, entry at instruction ${visit.entry} `, h("small", {}, `${visit.file}:${visit.line}`)), ...regions,
    visit.regions.length ? null : h("p", {class: "empty"}, "no region is here yet"), box);
}
function guardRow(g, how, now) {
  const shown = how !== "wait", cls = how === "wait" ? "wait" : g.ok ? "yes" : g.asked ? "no" : "wait";
  return h("div", {class: `g ${cls}${how === "later" ? " later" : ""}${now ? " now-asked" : ""}`},
    h("span", {class: "mark", "aria-label": !shown ? "not asked yet" : g.ok ? "holds" : g.asked ? "does not hold" : "not asked"}, !shown ? "·" : g.ok ? "✓" : g.asked ? "✗" : "–"),
    h("span", {class: "mono"}, g.text), h("small", {}, g.line),
    shown && g.parts && g.parts.length ? h("div", {class: "parts"}, ...g.parts.map(p => h("span", {class: `part${p.ok ? "" : " no"}`}, h("i", {}, p.name), p.ok ? p.seen : `${p.expected} → ${p.seen}`))) : null);
}
function outcomeView(call, visit, stop) {
  const parts = [];
  const now = stop.k === "done" ? (visit && visit.hit ? "hit" : "decided") : stop.k;
  if (!visit) parts.push(h("div", {class: "pad"}, h("div", {class: "box info"}, h("h3", {}, "A call of a compiled function"), h("p", {}, "At each entry a small Python function, the slot, is called. It asks the guards of its regions; the first region whose guards all hold runs in place of the bytecode."))));
  else if (now === "hit") {
    const number = D.captures.findIndex(c => c.region === visit.ran);
    parts.push(h("div", {class: "pad"}, h("div", {class: "box ok"}, h("h3", {}, `The cached graph of region ${visit.ran} runs`), h("p", {}, visit.graph.length ? `${plural(visit.graph.length - 1, "node")}, inputs among them; nothing was read again.` : "It has no graph: only what it hands over."))));
    parts.push(number >= 0 && visit.graph.length ? graphView(number, 0, true) : textView(visit.ran));
  } else if (now === "miss" || now === "decided") {
    const r = visit.record, made = visit.made;
    parts.push(scroller(h("div", {class: "pad added", style: "gap:12px"},
      r ? h("div", {class: "box bad"}, h("h3", {}, "Which guard, and what it saw"), h("dl", {}, h("dt", {}, "guard"), h("dd", {}, r.guard), h("dt", {}, "was"), h("dd", {}, r.old), h("dt", {}, "is"), h("dd", {}, r.new),
        h("dt", {}, "needed by"), h("dd", {}, r.line || "the region"), h("dt", {}, "nearest"), h("dd", {}, `region ${r.earlier}: ${r.held} of ${r.of} guards held`), ...(r.hint ? [h("dt", {}, "hint"), h("dd", {}, r.hint)] : [])))
        : h("div", {class: "box bad"}, h("h3", {}, "No region fits"), h("p", {}, "Nothing was compiled here before.")),
      now === "decided" ? h("div", {class: made ? "box ok" : "box warn"}, h("h3", {}, made ? `Recompiled: region ${made} runs` : "It runs plain"), h("p", {}, made ? "It was captured again with what the guard saw, compiled, written into the slot in front of the others, and ran in this very call." : visit.reason || "There is nothing to compile.")) : null,
      now === "decided" && made && D.texts[made] ? h("div", {class: "inset"}, textLines(made)) : null)));
  } else parts.push(textView(visit.regions.length ? visit.regions[stop.r || 0].number : null, stop.k === "guard" ? visit.regions[stop.r].guards[stop.g] : null));
  return panel("What comes of it", visit && ["guard", "visit", "refused"].includes(now) ? "the text that is run" : "", ...parts);
}
function textLines(number, guard) {
  const text = D.texts[number];
  const asks = line => guard && guard.condition && line.trim().replace(/^(if \(|elif \(|and )/, "").replace(/\):$/, "") === guard.condition;
  const lines = text.trimEnd().replace(/^ {4}/gm, "").split("\n").map(line => h("span", {class: asks(line) ? (guard.ok ? "hl" : "hl no") : ""}, line + "\n"));
  return h("pre", {class: "text"}, ...lines);
}
function textView(number, guard) {
  if (!D.texts[number]) return h("div", {class: "scroll"}, h("p", {class: "empty pad"}, "no text: there is no region here"));
  const box = scroller(textLines(number, guard));
  queue.push(() => bringIntoView(box, box.querySelector(".hl")));
  return box;
}

// ---- the page ---------------------------------------------------------------------------------------------------
let queue = [], shownAt = 0;
function render() {
  queue = [];
  const main = $("view"), n = position(), count = positions();
  main.className = `step-${state.step}`;
  let say = [], parts = [];
  if (state.step === 3) {
    if (!D.calls.length) { parts = [panel("Later calls", "", h("p", {class: "pad"}, D.raised ? `The first call raised ${D.raised}, so there is no second one.` : "There were no later calls."))]; }
    else { parts = thirdView(); say = sayThird(thirds[state.call][state.third], D.calls[state.call]); }
  } else if (!D.stops.length) parts = [panel("Nothing was captured", "", h("p", {class: "pad"}, D.raised ? `The call raised ${D.raised}.` : "No capture was made."))];
  else {
    shownAt = state.step === 2 ? growing[n] : state.at;
    const stop = D.stops[shownAt], codeNumber = stop.code === undefined ? captureOf(stop).code : stop.code;
    const at = stop.code === undefined ? (stop.k === "begin" ? captureOf(stop).entry : stop.k === "end" ? captureOf(stop).landing : null) : stop.at;
    say = sayStop(stop);
    if (state.step === 1) parts = [sourceView(codeNumber, at), codeView(stop), stateView(stop)];
    else {
      const graph = panel("Graph", `capture ${stop.capture + 1} of ${D.captures.length}`, graphView(stop.capture, shownAt, false));
      graph.firstChild.append(captureTabs(stop.capture));
      const small = stop.k === "step" || stop.k === "in" || stop.k === "out";
      const reading = panel("Reading", "", h("div", {class: "pad"}, small ? h("div", {}, h("p", {style: "margin-bottom:8px"}, opname(instruction(stop)), " ", code(instruction(stop).arg)), h("p", {}, ...effect(stop), ".")) : wholeBox(stop)));
      parts = [h("div", {class: "stackpanel"}, Object.assign(sourceView(codeNumber, at), {style: "flex:1 1 0"}), Object.assign(reading, {style: "flex:none;max-height:50%;overflow:auto"})), graph, collectedView(stop)];
    }
  }
  main.replaceChildren(...parts);
  $("say").replaceChildren(...say.flat());
  $("slider").max = Math.max(0, count - 1); $("slider").value = n;
  $("count").textContent = count ? `${n + 1} / ${count}` : "";
  $("first").disabled = $("back").disabled = n === 0;
  $("last").disabled = $("next").disabled = n >= count - 1;
  $("over").disabled = state.step !== 1;
  for (const tab of $("tabs").children) { const on = Number(tab.dataset.step) === state.step; tab.setAttribute("aria-selected", String(on)); tab.tabIndex = on ? 0 : -1; }
  main.setAttribute("aria-labelledby", `tab-${state.step}`);
  document.body.dataset.step = state.step; document.body.dataset.at = n;
  for (const job of queue) job();
  try { history.replaceState(null, "", `#${state.step}.${state.step === 3 ? `${state.call}.${state.third}` : state.at}`); } catch (e) { /* a page without an address of its own */ }
}
function choose(step) { state.step = step; stopPlaying(); render(); }
function stepOver() {
  const from = D.stops[state.at], depth = from.depth === undefined ? -1 : from.depth;
  let n = state.at + 1;
  while (n < D.stops.length - 1 && D.stops[n].depth !== undefined && D.stops[n].depth > depth && depth >= 0) n++;
  go(n);
}
function stopPlaying() { clearInterval(state.playing); state.playing = null; $("play").textContent = "Play"; $("play").setAttribute("aria-label", "play"); }
function play() {
  if (state.playing) return stopPlaying();
  if (position() >= positions() - 1) go(0);
  $("play").textContent = "Pause"; $("play").setAttribute("aria-label", "pause");
  state.playing = setInterval(() => { if (position() >= positions() - 1) stopPlaying(); else go(position() + 1); }, 900);
}
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("torchgraft-theme", theme); } catch (e) { /* files may have no storage */ }
}
function firstTheme() {
  let kept = null;
  try { kept = localStorage.getItem("torchgraft-theme"); } catch (e) { /* no storage */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = kept || (dark.matches ? "dark" : "light");
  dark.addEventListener("change", e => { if (!kept) document.documentElement.dataset.theme = e.matches ? "dark" : "light"; });
}
function legend() {
  const fam = [["load", "LOAD_…", "pushes something that is there"], ["const", "LOAD_CONST", "pushes a constant of the code"], ["op", "BINARY_OP …", "an operator or comparison"], ["store", "STORE_…", "puts the top somewhere"], ["call", "CALL", "calls a function"], ["jump", "JUMP, FOR_ITER", "goes on elsewhere"]];
  const keys = [["← →", "one step back, on"], ["Shift+← Shift+→", "ten steps"], ["Home End", "beginning, end"], ["1 2 3", "the three views"], ["O", "over a call that is read into"], ["Space", "play, pause"], ["T", "light or dark"], ["C", "in view 3: the next call"]];
  $("legend").replaceChildren(h("h2", {id: "legend-title"}, "How to read this page"),
    h("p", {}, "A capture reads a function's bytecode without running it. Operators on tensors become nodes of a graph; what was read from outside becomes a guard, which a later call must satisfy."),
    h("h3", {}, "Instructions"), h("ul", {}, ...fam.map(([f, name, text]) => h("li", {}, h("span", {class: `opname fam-${f}`}, name), text))),
    h("h3", {}, "What a capture collects"), h("div", {class: "added"}, h("div", {class: "chip node"}, h("b", {}, "node"), "an operator of the graph, or an input"), h("div", {class: "chip guard"}, h("b", {}, "guard"), "what must hold at a later call, with the line that needs it"), h("div", {class: "chip constant"}, h("b", {}, "constant"), "an object that the region's text names"), h("div", {class: "chip gone"}, h("b", {}, "taken back"), "captured, and then dropped in front of a break")),
    h("h3", {}, "Keys"), h("ul", {}, ...keys.map(([k, text]) => h("li", {}, h("span", {}, ...k.split(" ").flatMap(x => [h("kbd", {}, x), " "])), text))),
    h("p", {class: "empty", style: "margin-top:14px"}, `Python ${D.python}, torch ${D.torch}, backend ${D.backend}.${D.truncated ? " The capture was longer than is shown here." : ""}`),
    h("form", {method: "dialog"}, h("button", {autofocus: true}, "Close")));
  $("legend").showModal();
}

$("title").textContent = D.function;
$("where").textContent = `${D.file}:${D.line} · called with ${D.arguments || "no arguments"}${D.truncated ? " · the first part of a long capture" : ""}`;
$("first").onclick = () => go(0); $("last").onclick = () => go(positions() - 1);
$("back").onclick = () => go(position() - 1); $("next").onclick = () => go(position() + 1);
$("over").onclick = stepOver; $("play").onclick = play;
$("slider").oninput = event => go(Number(event.target.value));
$("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
$("legend-button").onclick = legend;
for (const tab of $("tabs").children) tab.onclick = () => choose(Number(tab.dataset.step));
const KEYS = {
  ArrowRight: e => go(position() + (e.shiftKey ? 10 : 1)), ArrowLeft: e => go(position() - (e.shiftKey ? 10 : 1)),
  PageDown: () => go(position() + 10), PageUp: () => go(position() - 10), Home: () => go(0), End: () => go(positions() - 1),
  1: () => choose(1), 2: () => choose(2), 3: () => choose(3), " ": play, "?": legend,
  o: () => state.step === 1 && stepOver(), t: () => $("theme").click(),
  c: () => { if (state.step === 3 && D.calls.length) { state.call = (state.call + 1) % D.calls.length; state.third = 0; render(); } },
};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("legend").open) return;
  const job = KEYS[event.key] || KEYS[event.key.toLowerCase()];
  if (!job || (event.key === " " && event.target.tagName === "BUTTON")) return;
  event.preventDefault();
  if (event.key !== " ") stopPlaying();
  job(event);
});
function fromAddress() {
  const [step, a, b] = location.hash.slice(1).split(".").map(Number);
  if (![1, 2, 3].includes(step)) return;
  state.step = step;
  if (step === 3) { state.call = Math.min(a || 0, Math.max(0, D.calls.length - 1)); state.third = D.calls.length ? Math.min(b || 0, thirds[state.call].length - 1) : 0; }
  else state.at = Math.min(a || 0, Math.max(0, D.stops.length - 1));
}
addEventListener("hashchange", () => { fromAddress(); render(); });
const own = D.stops.findIndex(stop => stop.code !== undefined && !D.codes[stop.code].library);
if (D.captures.length && D.codes[D.captures[0].code].library && own > 0) state.at = own;  // a model's own code, behind torch's
firstTheme(); fromAddress(); render();
})();
