-- What a profile writes, and `tlua --profile`.

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

describe("a trace", function()
   it("is JSON with every event, in order and within its parent", function()
      local prof = recorded()
      shell.with_folder(function(folder)
         prof:export_chrome_trace(folder .. "/t.json")
         local trace = assert(json.decode(shell.read(folder .. "/t.json")))
         local spans, flows = {}, {s = {}, f = {}}
         for _, e in ipairs(trace.traceEvents) do
            if e.ph == "X" then spans[#spans + 1] = e end
            if e.cat == "fwdbwd" then flows[e.ph][e.id] = true end
         end
         assert.equal(#prof, #spans)
         for i, event in prof:events() do
            assert.equal(event.name, spans[i].name)
            assert.equal(("%.3f"):format(event.start), ("%.3f"):format(spans[i].ts))
            local outer = event.parent and spans[event.parent]
            if outer then
               assert.is_true(spans[i].ts >= outer.ts)
               assert.is_true(spans[i].ts + spans[i].dur <= outer.ts + outer.dur + 0.002)
            end
         end
         for id in pairs(flows.f) do assert.is_true(flows.s[id]) end
         assert.is_truthy(next(flows.f))
      end)
   end)
end)

describe("stacks", function()
   it("are lines of frames, outermost first, and microseconds", function()
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
end)

describe("a page", function()
   it("needs nothing from outside", function()
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

describe("the memory timeline", function()
   it("tells parameters, gradients, activations and an optimizer's state apart", function()
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
      assert.is_true(most[2] >= 2 * parameters) -- Adam's two averages
      assert.equal(parameters, most[3])
      assert.is_true(most[4] >= 3 * 8 * 4) -- what tanh has saved
   end)
end)

describe("tlua --profile", function()
   local program = [[
      local model = nn.Linear(4, 2)
      for _ = 1, 3 do model(torch.ones(1, 4)):sum():backward() end
      print "done"
   ]]

   it("tells what a script did, on stderr", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", program .. "torch = nil os.exit(3)")
         local command = shell.start() .. " --profile " .. folder .. "/a.lua"
         local out, status = shell.run("{ " .. command .. "; } 2>" .. folder .. "/err")
         assert.equal("done\n", out)
         assert.equal(3, status)
         local err = shell.read(folder .. "/err")
         assert.matches("linear_bias", err)
         assert.matches("The most expensive modules", err)
      end)
   end)

   it("writes a page, also of a script that fails", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", program .. "error 'mine'")
         local output, status = shell.run(("%s --profile --html %s/a.html %s/a.lua"):format(
            shell.start(), folder, folder))
         assert.equal(1, status)
         assert.matches("mine", output)
         assert.matches("the report is in", output)
         assert.matches("</html>", shell.read(folder .. "/a.html"))
      end)
   end)
end)
