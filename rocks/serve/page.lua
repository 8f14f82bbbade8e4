-- page.lua - the web page at `/`, on which people can try the models. It uses the same protocols as
-- all other clients.

return [[
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tlua serve</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2166c0; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; }
header { display: flex; gap: 1rem; align-items: baseline; padding: .8rem 1.2rem;
  border-bottom: 1px solid var(--line); flex-wrap: wrap; }
header h1 { font-size: 1.1rem; margin: 0; }
header .state { opacity: .75; }
header input { margin-left: auto; }
main { display: grid; grid-template-columns: 15rem 1fr; min-height: 80vh; }
nav { border-right: 1px solid var(--line); padding: 1rem; }
nav button { display: block; width: 100%; text-align: left; margin-bottom: .4rem; }
nav button.chosen { border-color: var(--accent); box-shadow: inset 3px 0 var(--accent); }
nav small { opacity: .7; display: block; }
section { padding: 1rem 1.4rem; min-width: 0; }
section h2 { margin: 0 0 .2rem; font-size: 1.2rem; }
table { border-collapse: collapse; margin: .6rem 0 1rem; }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); }
button, input, textarea, select { font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 6px; padding: .35rem .6rem; }
button { cursor: pointer; }
button.main { background: var(--accent); color: white; border-color: var(--accent); }
textarea { width: 100%; font: 13px/1.4 ui-monospace, monospace; min-height: 7rem; }
label { display: block; margin: .6rem 0 .2rem; }
pre { background: var(--soft); border-radius: 6px; padding: .7rem; overflow: auto;
  max-height: 22rem; font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.bar { display: grid; grid-template-columns: 3rem 1fr 7rem; gap: .6rem; align-items: center;
  font-variant-numeric: tabular-nums; }
.bar div { height: .8rem; background: var(--accent); border-radius: 3px; min-width: 1px; }
.message { margin: .5rem 0; padding: .5rem .8rem; border-radius: 8px; background: var(--soft);
  white-space: pre-wrap; overflow-wrap: anywhere; }
.message.user { margin-left: 15%; background: #2166c022; }
.error { color: #c03a2b; }
.row { display: flex; gap: .5rem; align-items: center; flex-wrap: wrap; margin: .5rem 0; }
@media (max-width: 700px) { main { grid-template-columns: 1fr; } nav { border: 0; } }
</style>
</head>
<body>
<header>
  <h1>tlua serve</h1><span class="state" id="state"></span>
  <input id="token" type="password" placeholder="token, if one is needed" autocomplete="off">
</header>
<main>
  <nav id="models" aria-label="Models"></nav>
  <section id="model"><p>Choose a model.</p></section>
</main>
<script>
"use strict";
const $ = id => document.getElementById(id);
const headers = () => $("token").value ? {Authorization: "Bearer " + $("token").value} : {};
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {headers: headers()} :
    {method: "POST", headers: headers(), body: JSON.stringify(body)});
  const text = await answer.text();
  let value;
  try { value = text ? JSON.parse(text) : {}; } catch { throw new Error(text); }
  if (!answer.ok)
    throw new Error(typeof value.error === "string" ? value.error : value.error?.message ?? text);
  return value;
}
function table(list) {
  const rows = list.map(t => make("tr", {}, make("td", {}, t.name), make("td", {}, t.datatype),
    make("td", {}, "[" + t.shape.join(", ") + "]")));
  return make("table", {}, make("tr", {}, ...["name", "datatype", "shape"].map(
    text => make("th", {}, text))), ...rows);
}
const sizes = t => t.shape.map(n => n < 0 ? 1 : n);
function example(t) {
  const shape = sizes(t), n = shape.reduce((a, b) => a * b, 1);
  if (n > 20000) return "";
  const real = t.datatype.startsWith("FP") || t.datatype === "BF16";
  if (t.datatype === "BYTES") return JSON.stringify(Array.from({length: n}, () => "text"));
  return JSON.stringify(Array.from({length: n}, () => t.datatype === "BOOL" ? true :
    real ? Math.round(Math.random() * 100) / 100 : 1));
}
function bars(data) {
  const most = Math.max(...data.map(v => Math.abs(Number(v))), 1e-12);
  return make("div", {}, ...data.map((v, i) => make("div", {className: "bar"},
    make("span", {}, String(i)),
    make("div", {style: "width:" + Math.abs(Number(v)) / most * 100 + "%;opacity:" +
      (v < 0 ? .4 : 1)}),
    make("span", {}, Number(v).toPrecision(5)))));
}
async function program(place, model) {
  const about = await ask("/v2/models/" + encodeURIComponent(model.name));
  place.append(make("h3", {}, "Inputs"), table(about.inputs));
  const fields = about.inputs.map(t => {
    const shape = make("input", {value: sizes(t).join(", "), ariaLabel: "shape of " + t.name});
    const data = make("textarea", {value: example(t), ariaLabel: "values of " + t.name});
    place.append(make("label", {}, t.name + ", shape "), shape, data);
    return {t, shape, data};
  });
  const out = make("div", {});
  const run = make("button", {className: "main", textContent: "Run"});
  run.onclick = async () => {
    out.textContent = "…";
    try {
      const inputs = fields.map(f => ({name: f.t.name, datatype: f.t.datatype,
        shape: JSON.parse("[" + f.shape.value + "]"), data: JSON.parse(f.data.value)}));
      const start = performance.now();
      const answer = await ask("/v2/models/" + encodeURIComponent(model.name) + "/infer", {inputs});
      out.textContent = "";
      out.append(make("p", {}, (performance.now() - start).toFixed(1) + " ms, version " +
        answer.model_version));
      for (const t of answer.outputs) {
        out.append(make("h3", {}, t.name + " [" + t.shape.join(", ") + "] " + t.datatype));
        const counts = !["BOOL", "BYTES"].includes(t.datatype);
        if (t.data.length <= 64 && counts) out.append(bars(t.data));
        else out.append(make("pre", {}, JSON.stringify(t.data.slice(0, 2000))));
      }
    } catch (error) {
      out.textContent = "";
      out.append(make("p", {className: "error"}, error.message));
    }
  };
  place.append(make("div", {className: "row"}, run), out,
    make("h3", {}, "Outputs"), table(about.outputs));
}
function language(place, model) {
  const history = [], log = make("div", {});
  const text = make("textarea", {placeholder: "A message", ariaLabel: "message"});
  const most = make("input", {type: "number", value: 128, min: 1, style: "width:6rem"});
  const warmth = make("input", {type: "number", value: 0.8, min: 0, max: 2, step: 0.1,
    style: "width:5rem"});
  const mode = make("select", {}, make("option", {value: "chat"}, "chat"),
    make("option", {value: "completion"}, "completion"));
  const send = make("button", {className: "main", textContent: "Send"});
  const stop = make("button", {textContent: "Stop", disabled: true});
  let abort;
  stop.onclick = () => abort.abort();
  send.onclick = async () => {
    const chats = mode.value === "chat", prompt = text.value;
    if (!prompt) return;
    history.push({role: "user", content: prompt});
    log.append(make("div", {className: "message user"}, prompt));
    const shown = make("div", {className: "message"});
    log.append(shown);
    text.value = "";
    abort = new AbortController();
    send.disabled = true;
    stop.disabled = false;
    const body = {model: model.name, stream: true, max_tokens: Number(most.value),
      temperature: Number(warmth.value)};
    if (chats) body.messages = history; else body.prompt = prompt;
    try {
      const answer = await fetch(chats ? "/v1/chat/completions" : "/v1/completions",
        {method: "POST", headers: headers(), body: JSON.stringify(body), signal: abort.signal});
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "";;) {
        const {value, done} = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const data = event.replace(/^data: /, "");
          if (data === "[DONE]") continue;
          const choice = JSON.parse(data).choices[0];
          shown.append((chats ? choice.delta.content : choice.text) ?? "");
        }
      }
    } catch (error) {
      if (error.name !== "AbortError")
        log.append(make("p", {className: "error"}, error.message));
    }
    if (chats) history.push({role: "assistant", content: shown.textContent});
    send.disabled = false;
    stop.disabled = true;
  };
  place.append(log, text, make("div", {className: "row"}, send, stop, mode, "at most", most,
    "tokens, temperature", warmth));
}
async function choose(model, button) {
  for (const other of $("models").children) other.classList.remove("chosen");
  button.classList.add("chosen");
  const place = $("model");
  place.textContent = "";
  place.append(make("h2", {}, model.name), make("p", {}, "version " + model.version));
  try {
    if (model.language) language(place, model); else await program(place, model);
  } catch (error) { place.append(make("p", {className: "error"}, error.message)); }
}
async function list() {
  try {
    const about = await ask("/v2");
    $("state").textContent = about.name + " " + about.version;
    const languages = new Set((await ask("/v1/models")).data.map(m => m.id));
    const models = await ask("/v2/repository/index", {});
    $("models").textContent = "";
    for (const model of models) {
      model.language = languages.has(model.name);
      const button = make("button", {}, model.name, make("small", {}, model.state.toLowerCase() +
        (model.version ? ", version " + model.version : "")));
      button.disabled = model.state !== "READY";
      button.title = model.reason;
      button.onclick = () => choose(model, button);
      $("models").append(button);
    }
    const first = [...$("models").children].find(b => !b.disabled);
    if (first) first.click();
  } catch (error) { $("state").textContent = error.message; }
}
$("token").onchange = list;
list();
</script>
</body>
</html>
]]
