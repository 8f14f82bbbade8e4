-- Tests the files that a profile writes, and the option `tlua --profile`.

local torch = require "tlua"
local nn = torch.nn
local json = torch.utils.json
local shell = require "spec.support.shell"

local function recorded()
   torch.manual_seed(1)
   local model = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
   local adam = torch.optim.Adam(model:parameters())
   return torch.profiler.profile({record_shapes = true, with_stack = true, with_modules = true,
      profile_memory = true}, function()
      for _ = 1, 2 do
         model(torch.randn(3, 4)):sum():backward()
         adam:step()
      end
   end)
end

it("a trace is JSON with every event, in order and within its parent", function()
   local prof = recorded()
   shell.with_folder(function(folder)
      prof:export_chrome_trace(folder .. "/t.json")
      local trace = assert(json.decode(shell.read(folder .. "/t.json")))
      local spans, flows = {}, {s = {}, f = {}}
      for _, e in ipairs(trace.traceEvents) do
         if e.ph == "X" and e.pid == 1 then spans[#spans + 1] = e end
         if e.cat == "fwdbwd" then flows[e.ph][e.id] = true end
      end
      local n = 0
      for i, event in prof:events() do
         -- the events of devices come after all other events
         if event.kind == "kernel" then break end
         n = i
         assert.equal(event.name, spans[i].name)
         assert.equal(("%.3f"):format(event.start), ("%.3f"):format(spans[i].ts))
         local outer = event.parent and spans[event.parent]
         if outer then
            assert.is_true(spans[i].ts >= outer.ts)
            assert.is_true(spans[i].ts + spans[i].dur <= outer.ts + outer.dur + 0.002)
         end
      end
      assert.equal(n, #spans)
      for id in pairs(flows.f) do assert.is_true(flows.s[id]) end
      assert.is_truthy(next(flows.f))
   end)
end)

-- The fields that each kind of event must have. The description of the Trace Event Format requires them, and so do the
-- programs that read it (chrome://tracing, Perfetto, TensorBoard).
local asked <const> = {
   X = {name = "string", cat = "string", ts = "number", dur = "number", args = "table"},
   M = {name = "string", args = "table"},
   i = {name = "string", ts = "number", s = "string", args = "table"},
   s = {name = "string", cat = "string", ts = "number", id = "number"},
   f = {name = "string", cat = "string", ts = "number", id = "number", bp = "string"},
}

describe("a trace for its viewers", function()
   local names <const> = {"plain", 'quote " and \\', "line\nbreak", "\1\127", "\u{e4}\u{4e2d}", "</script>"}

   local function written(folder)
      local prof = torch.profiler.profile({record_shapes = true, with_stack = true,
         profile_memory = true, with_modules = true, with_flops = true}, function()
         for _, name in ipairs(names) do
            torch.profiler.record_function(name, function() torch.ones(2) end)
         end
         local x = torch.randn(8, 3):requires_grad_()
         nn.Linear(3, 2)(x):sum():backward()
         local data = torch.data.TensorDataset(torch.ones(4, 2, {device = "cpu"}))
         for _ in torch.data.DataLoader(data, {num_workers = 1}):iter() do end
         local moved = torch.ones(16):to "sim"
         local _ = moved + moved
      end)
      prof:export_chrome_trace(folder .. "/t.json")
      return json.decode(shell.read(folder .. "/t.json"))
   end

   it("has the fields of each kind, in their types", shell.in_folder(function(folder)
      local trace, threads, seen = written(folder), {}, {}
      assert.equal(1, trace.schemaVersion)
      for _, e in ipairs(trace.traceEvents) do
         local fields = assert(asked[e.ph], e.ph)
         seen[e.ph] = true
         assert.equal("integer", math.type(e.pid))
         assert.equal("integer", math.type(e.tid))
         for field, type_ in pairs(fields) do assert.equal(type_, type(e[field]), field) end
         if e.ts then assert.is_true(e.ts >= 0 and e.ts < math.huge) end
         if e.dur then assert.is_true(e.dur >= 0 and e.dur < math.huge) end
         if e.ph == "M" and e.name == "thread_name" then
            threads[e.pid .. " " .. e.tid] = e.args.name
         elseif e.ph == "X" and e.pid == 1 then
            -- the event that names a thread comes before the thread's other events
            assert.is_string(threads["1 " .. e.tid])
         end
      end
      for kind in pairs(asked) do assert.is_true(seen[kind], kind) end
   end))

   it("keeps names as they are", shell.in_folder(function(folder)
      local found = {}
      for _, e in ipairs(written(folder).traceEvents) do found[e.name] = true end
      for _, name in ipairs(names) do assert.is_true(found[name], name) end
   end))

   it("has events of a thread that are nested or disjoint", shell.in_folder(function(folder)
      local tracks = {}
      for _, e in ipairs(written(folder).traceEvents) do
         if e.ph == "X" and e.pid == 1 then
            tracks[e.tid] = tracks[e.tid] or {}
            table.insert(tracks[e.tid], e)
         end
      end
      assert.is_table(tracks[2]) -- the worker's track has events
      for _, track in pairs(tracks) do
         table.sort(track, function(a, b)
            if a.ts ~= b.ts then return a.ts < b.ts end
            return a.dur > b.dur
         end)
         local open = {}
         for _, e in ipairs(track) do
            while #open > 0 and open[#open] <= e.ts + 0.0011 do open[#open] = nil end
            if #open > 0 then assert.is_true(e.ts + e.dur <= open[#open] + 0.0021) end
            open[#open + 1] = e.ts + e.dur
         end
      end
   end))

   it("is JSON for another parser", function()
      if not shell.has "python3" then return pending "python3 is not here" end
      shell.with_folder(function(folder)
         written(folder)
         local check = [[
import json, sys
def refuse(x): raise ValueError(x)
t = json.load(open(sys.argv[1], encoding="utf-8"), parse_constant=refuse)
print(len(t["traceEvents"]) > 10)]]
         local command = ("python3 -c %s %s/t.json"):format(shell.quote(check), folder)
         assert.equal("True\n", shell.ok(command))
      end)
   end)
end)

it("stacks are written as lines of frames, outermost first, and microseconds", function()
   local prof = recorded()
   shell.with_folder(function(folder)
      prof:export_stacks(folder .. "/s")
      local lines = 0
      for line in shell.read(folder .. "/s"):gmatch "[^\n]+" do
         assert.matches("^[^;].*;[%w_.#() ]+ %d+$", line)
         assert.matches("files_spec.lua%(%d+%)", line)
         lines = lines + 1
      end
      assert.is_true(lines > 3)
   end)
end)

describe("a page", function()
   it("refers to no other file", function()
      local prof = recorded()
      shell.with_folder(function(folder)
         prof:export_html(folder .. "/a.html", "a <b> title")
         prof:export_flame_graph(folder .. "/f.html")
         prof:export_memory_timeline(folder .. "/m.html")
         for name, word in pairs {a = "timeline%(%[", f = "flame%(", m = '"activations"'} do
            local text = shell.read(("%s/%s.html"):format(folder, name))
            assert.matches("^<!DOCTYPE html>", text)
            assert.matches("</html>\n$", text)
            assert.matches(word, text)
            assert.is_nil(text:find "https?://")
            assert.is_nil(text:find "src=")
         end
         assert.matches("a &lt;b&gt; title", shell.read(folder .. "/a.html"))
      end)
   end)

   -- Replaces the browser's `document` by a small table that records the shapes drawn in each colour.
   it("draws memory by category, and cached memory if there is room or on request", function()
      if not shell.has "node" then return pending "no node" end
      local document <const> = [[
         let colours = new Set(), handlers = {};
         const node = () => ({style: {}, children: [], clientWidth: 600, appendChild() {},
           addEventListener(what, fn) { (handlers[what] = handlers[what] || []).push(fn); },
           getContext() { return {setTransform() {}, fillText() {},
             fillRect(x, y, w, h) { if (h > 0) colours.add(this.fillStyle); }}; }});
         const document = {body: node(), createElement: node, createTextNode: node,
           getElementById: node}, window = {}, addEventListener = () => {}, innerWidth = 600;]]
      local code <const> = [=[
         const names = ["parameters", "optimizer state", "gradients", "activations", "temporary",
           "cached"];
         const drawn = fn => { colours = new Set(); fn(); return [...colours].join(" "); };
         console.log(drawn(() => memory(names, [[0, 5, 0, 0, 0, 0, 10]], 100)));
         console.log(drawn(() => { handlers = {}; memory(names, [[0, 5, 0, 7, 0, 0, 1000]], 100); }));
         console.log(drawn(handlers.click[5]));
         console.log(drawn(handlers.click[2]));]=]
      local scripts = {}
      for script in require("tlua.profiler.page").head:gmatch "<script>(.-)</script>" do
         scripts[#scripts + 1] = script
      end
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.js", document .. table.concat(scripts, "\n") .. code)
         assert.same({"#4c78a8 #eef0f3", "#4c78a8 #f58518", "#4c78a8 #f58518 #eef0f3",
            "#4c78a8 #eef0f3"}, {shell.ok("node " .. folder .. "/a.js"):match(
            "^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n$")})
      end)
   end)

   it("holds 200,000 events", function()
      local prof = torch.profiler.profile()
      for _ = 1, 210000 do torch._span_close(torch._span_open("user", "x")) end
      prof:stop()
      shell.with_folder(function(folder)
         prof:export_html(folder .. "/a.html")
         local text = shell.read(folder .. "/a.html")
         assert.matches("200000 of 210000 events are shown", text)
         assert.is_true(#text < 10e6, #text)
      end)
   end)
end)

describe("a disk that fills up", function()
   local function small_disk(fn)
      shell.with_folder(function(folder)
         local _, status = shell.run("mount -t tmpfs -o size=64k tmpfs " .. folder)
         if status ~= 0 then return pending "no file system can be mounted here" end
         local ok, message = pcall(fn, folder)
         shell.run("umount " .. folder)
         if not ok then error(message, 0) end
      end)
   end

   it("is an error of each export, which keeps the old file, and the profile continues", function()
      small_disk(function(folder)
         local prof = torch.profiler.profile {with_stack = true, profile_memory = true}
         for _ = 1, 2000 do local _ = torch.ones(1) + 1 end
         prof:stop()
         local path = folder .. "/old"
         shell.write(path, "old")
         for _, method in ipairs {"export_chrome_trace", "export_html"} do
            local ok, message = pcall(prof[method], prof, path)
            assert.is_false(ok)
            assert.matches(method .. ": " .. path .. ": No space left on device", message, 1, true)
            assert.equal("old", shell.read(path))
            assert.equal("old\n", shell.ok("ls " .. folder)) -- the failed write leaves no incomplete file
         end
         assert.equal(2000, prof:key_averages():row("add").count)
      end)
   end)

   it("does not end a training that writes traces to it", function()
      small_disk(function(folder)
         shell.write(folder .. "/a.lua", [[
            local handler = torch.profiler.tensorboard_trace_handler(arg[1])
            local x = torch.ones(2)
            torch.profiler.profile({on_trace_ready = handler,
               schedule = torch.profiler.schedule {active = 1}}, function(prof)
               for _ = 1, 3 do
                  for _ = 1, 3000 do local _ = x + x end
                  prof:step()
               end
            end)
            print "went on"]])
         local output = shell.ok(("%s %s/a.lua %s"):format(shell.start(), folder, folder))
         assert.matches("No space left on device", output)
         assert.matches("went on\n$", output)
      end)
   end)
end)

it("the memory timeline distinguishes parameters, gradients, activations and an optimizer's state", function()
   local points = require "tlua.profiler.timeline".points(recorded().session, 1000)
   local most = {}
   for _, point in ipairs(points) do
      for i, bytes in ipairs(point.bytes) do
         assert.is_true(bytes >= 0)
         most[i] = math.max(most[i] or 0, bytes)
      end
   end
   local parameters = (8 * 4 + 8) * 4
   assert.equal(parameters, most[1])
   assert.is_true(most[2] >= 2 * parameters) -- the peak includes Adam's two averages
   assert.equal(parameters, most[3])
   assert.is_true(most[4] >= 3 * 8 * 4) -- the peak includes the tensors saved by tanh
end)

describe("tlua --profile", function()
   local program = [[
      local model = nn.Linear(4, 2)
      for _ = 1, 3 do model(torch.ones(1, 4)):sum():backward() end
      print "done"
   ]]

   it("prints what a script did, on stderr", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", program .. "torch = nil os.exit(3)")
      local command = shell.start() .. " --profile " .. folder .. "/a.lua"
      local out, status = shell.run("{ " .. command .. "; } 2>" .. folder .. "/err")
      assert.equal("done\n", out)
      assert.equal(3, status)
      local err = shell.read(folder .. "/err")
      assert.matches("linear_bias", err)
      assert.matches("The most expensive modules", err)
   end))

   it("ends if the script begins a profile of its own, and says so", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            local x = torch.ones(2, 2):mm(torch.ones(2, 2))
            local prof = torch.profiler.profile({}, function() return x:tanh() end)
            for _, e in prof:events() do print(e.name) end
         ]])
      local out, status = shell.run(("%s --profile %s/a.lua 2>%s/err"):format(shell.start(), folder, folder))
      assert.equal("tanh\n", out)
      assert.equal(0, status)
      local err = shell.read(folder .. "/err")
      assert.matches("\nmm ", err)
      assert.is_nil(err:find "\ntanh ")
      assert.matches("the script has begun a profile of its own", err)
   end))

   -- Runs a program that is ended by a signal. The program runs in a shell, whose status shows the signal: it is 128
   -- plus the signal's number.
   local function ended_by(signal, text, html)
      return shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", ([[
            local pid = io.open("/proc/self/stat"):read "n"
            -- a child process that os.execute starts would ignore SIGINT
            local function ended() io.popen("kill -%s " .. pid):close() end
            local x = torch.ones(2, 2)
            x = x:mm(x)
            %s
            io.stderr:write "it went on\n"
         ]]):format(signal, text))
         local output, status = shell.run(("%s --profile %s %s/a.lua"):format(shell.start(),
            html and ("--html %s/a.html"):format(folder) or "", folder))
         if html then assert.matches("</html>", shell.read(folder .. "/a.html")) end
         assert.is_nil(output:find "it went on", output)
         return output, status
      end)
   end

   it("prints its records if SIGTERM or SIGINT ends the script", function()
      if os.getenv "TSAN_OPTIONS" then
         return pending "the thread sanitizer holds signals back until the program calls the system"
      end
      local ways = {
         "ended() while true do x = x + 1 end",
         "pcall(function() ended() while true do x = x + 1 end end)",
         "ended() io.popen('sleep 60'):read 'a'",
         "local y = torch.ones(1):requires_grad_() y:register_hook(function() ended() while true do end end) " ..
            "y:sum():backward()",
         "coroutine.wrap(function() ended() while true do end end)()",
         "coroutine.wrap(coroutine.wrap(function() ended() while true do pcall(error) end end))()",
      }
      for _, way in ipairs(ways) do
         local output, status = ended_by("TERM", way)
         assert.matches("\nmm ", output)
         assert.equal(128 + 15, status)
      end
      local _, status = ended_by("TERM", ways[1], true)
      assert.equal(128 + 15, status)
      local output
      output, status = ended_by("INT", ways[1])
      assert.matches("interrupted!", output)
      assert.matches("\nmm ", output)
      assert.equal(1, status)
   end)

   it("leaves SIGTERM alone otherwise", function()
      local _, status = shell.run(shell.start() ..
         [[ -e 'os.execute("kill -TERM " .. io.open("/proc/self/stat"):read "n") while true do end']])
      assert.equal(128 + 15, status)
   end)

   it("writes a page, also of a script that fails", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", program .. "error 'mine'")
      local output, status = shell.run(("%s --profile --html %s/a.html %s/a.lua"):format(
         shell.start(), folder, folder))
      assert.equal(1, status)
      assert.matches("mine", output)
      assert.matches("the report is in", output)
      assert.matches("</html>", shell.read(folder .. "/a.html"))
   end))
end)
