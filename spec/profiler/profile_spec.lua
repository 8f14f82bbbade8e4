-- Tests torch.profiler: the recorded events, their times, and the summaries.

local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local profiler = torch.profiler
local shell = require "spec.support.shell"

local function training(prof_options, steps)
   torch.manual_seed(3)
   local model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
   local adam = optim.Adam(model:parameters(), {lr = 0.1})
   local x, y = torch.randn(16, 4), torch.randn(16, 2)
   local function run(prof)
      for _ = 1, steps or 3 do
         adam:zero_grad()
         nn.functional.mse_loss(model(x), y):backward()
         adam:step()
         if prof then prof:step() end
      end
   end
   local prof
   if prof_options then prof = profiler.profile(prof_options, run) else run() end
   return prof, model
end

local function row(prof, name) return prof:key_averages():row(name) end

describe("a profile", function()
   it("has a row for each operator that was called, with its calls", function()
      local a = torch.randn(8, 8)
      local prof = profiler.profile({}, function()
         for _ = 1, 5 do local _ = (a + a):exp() end
         a:mm(a)
      end)
      assert.equal(5, row(prof, "add").count)
      assert.equal(5, row(prof, "exp").count)
      assert.equal(1, row(prof, "mm").count)
      assert.is_nil(row(prof, "sub"))
      assert.equal(prof:key_averages():sum "count", #prof)
   end)

   it("counts an operator's own time without that of the ones it calls", function()
      local x, w = torch.randn(3, 4), torch.randn(5, 4)
      local prof = profiler.profile({}, function() nn.functional.linear(x, w, torch.zeros(5)) end)
      local linear, inner = row(prof, "linear"), row(prof, "linear_bias")
      assert.is_true(linear.cpu_time_total >= inner.cpu_time_total)
      local difference = linear.cpu_time_total - inner.cpu_time_total
      assert.is_true(math.abs(difference - linear.self_cpu_time_total) < 1e-6)
      for _, event in prof:events() do
         if event.name == "linear_bias" then assert.equal("number", type(event.parent)) end
      end
   end)

   it("has rows of derivatives under PyTorch's names, and of leaves' gradients", function()
      local prof = training({})
      assert.equal(3, row(prof, "backward").count)
      assert.equal(3, row(prof, "AddmmBackward0").count)
      assert.equal(12, row(prof, "AccumulateGrad").count)
      assert.equal(3, row(prof, "Optimizer.step#Adam").count)
   end)

   it("records bytes, operations and shapes", function()
      local a, b = torch.randn(6, 3), torch.randn(3, 5)
      local prof = profiler.profile({record_shapes = true, profile_memory = true,
         with_flops = true}, function()
         local _ = a:mm(b)
         local _ = nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3))
      end)
      local mm = prof:key_averages({group_by_input_shape = true}):row "mm"
      assert.equal("[6, 3], [3, 5]", mm.input_shapes)
      assert.equal(6 * 5 * 4, mm.self_cpu_memory_usage)
      assert.equal(2 * 6 * 3 * 5, mm.flops)
      assert.equal(2 * (2 * 4 * 6 * 6) * (3 * 3 * 3), row(prof, "convolution").flops)
   end)

   -- torch.utils.flop_counter gives the same counts. Each gradient of a convolution costs as much as the convolution,
   -- and attention costs as much as its two products.
   it("counts operations of a convolution's gradients and of attention", function()
      local x = torch.randn(1, 2, 6, 6):requires_grad_()
      local w = torch.randn(3, 2, 3, 3):requires_grad_()
      local q, k, v = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 3)
      local prof = profiler.profile({with_flops = true}, function()
         nn.functional.conv2d(x, w):sum():backward()
         nn.functional.conv2d(x:detach(), w):sum():backward()
         nn.functional.scaled_dot_product_attention(q, k, v)
      end)
      local forward = 2 * (3 * 4 * 4) * (2 * 3 * 3)
      assert.equal(2 * forward, row(prof, "convolution").flops)
      assert.equal(2 * forward + forward, row(prof, "convolution_backward").flops)
      assert.equal(2 * 2 * (5 * 7 * 4) + 2 * 2 * (5 * 7 * 3), row(prof, "attention").flops)
   end)

   it("counts no operation twice that is a part of a counted one", function()
      local layer, x = nn.ConvTranspose2d(4, 4, 3), torch.randn(1, 4, 8, 8)
      local prof = profiler.profile({with_flops = true}, function() layer(x) end)
      assert.equal(2 * (4 * 8 * 8) * (4 * 3 * 3), prof:key_averages():sum "flops")
      local sum = 0
      for _, event in prof:events() do sum = sum + event.flops end
      assert.equal(2 * (4 * 8 * 8) * (4 * 3 * 3), sum)
   end)

   it("has a row for each name, as a list", function()
      local averages = profiler.profile({}, function() torch.ones(2):relu():neg():neg() end):key_averages()
      local counts = {}
      for _, averaged in ipairs(averages) do counts[averaged.key] = averaged.count end
      counts.pointwise = nil -- a device also reports its kernels
      assert.same({neg = 2, ones = 1, relu = 1}, counts)
      assert.equal(averages:row(averages[3].key), averages[3])
   end)

   -- The count is rows * gates * (inputs + outputs) * 2. There are 15 rows: 5 steps of 3 samples.
   it("counts operations of recurrent layers and their gradients", function()
      local function flops(name, net, x, expected)
         local prof = profiler.profile({with_flops = true}, function() net(x):sum():backward() end)
         assert.equal(expected.forward, row(prof, name).flops)
         assert.equal(expected.backward, row(prof, "rnn_layer_backward").flops)
      end
      local x = torch.randn(5, 3, 4)
      local ih, hh = 2 * 15 * (4 * 6) * 4, 2 * 15 * (4 * 6) * 6
      flops("lstm_layer", nn.LSTM(4, 6), x, {forward = ih + hh, backward = ih + 2 * hh})
      flops("lstm_layer", nn.LSTM(4, 6), x:clone():requires_grad_(), {forward = ih + hh, backward = 2 * ih + 2 * hh})
      flops("gru_layer", nn.GRU(4, 6), x, {forward = (ih + hh) * 3 / 4, backward = (ih + 2 * hh) * 3 / 4})
      flops("rnn_tanh_layer", nn.RNN(4, 6), x, {forward = (ih + hh) / 4, backward = (ih + 2 * hh) / 4})
      local half, hr = 2 * 15 * (4 * 6) * 2, 2 * 15 * 6 * 2 -- the projection reduces 6 features to 2
      flops("lstm_layer", nn.LSTM(4, 6, {proj_size = 2}), x,
         {forward = ih + half + hr, backward = ih + 2 * half + 2 * hr})
   end)

   it("counts operations of attention's gradient", function()
      local q = torch.randn(1, 2, 5, 4):requires_grad_()
      local k = torch.randn(1, 2, 7, 4):requires_grad_()
      local v = torch.randn(1, 2, 7, 3):requires_grad_()
      local function flops()
         local prof = profiler.profile({with_flops = true},
            function() nn.functional.scaled_dot_product_attention(q, k, v):sum():backward() end)
         return row(prof, "attention_backward").flops
      end
      local scores, values = 2 * 2 * 5 * 7 * 4, 2 * 2 * 5 * 7 * 3 -- the counts for two heads of attention
      assert.equal(3 * scores + 2 * values, flops())
      v:requires_grad_(false)
      assert.equal(3 * scores + values, flops())
   end)

   it("counts operations once if a gradient consists of operators that count", function()
      local q = torch.randn(1, 2, 5, 4):requires_grad_()
      local prof = profiler.profile({with_flops = true}, function()
         local y = nn.functional.scaled_dot_product_attention(q, q, q)
         torch.autograd.grad(y:sum(), {q}, {create_graph = true})
      end)
      local composed = row(prof, "attention_backward")
      assert.equal(0, composed.flops)
      assert.is_true(row(prof, "bmm").flops >= 4 * 2 * 2 * 5 * 5 * 4)
   end)

   it("groups by shape and by the lines that called", function()
      local prof = profiler.profile({record_shapes = true, with_stack = true}, function()
         for n = 2, 3 do
            local t = torch.ones(n)
            local _ = t + t
         end
      end)
      local found = {}
      for r in prof:key_averages({group_by_input_shape = true}):iter() do
         if r.key == "add" then found[#found + 1] = r.input_shapes end
      end
      assert.same({"[2], [2]", "[3], [3]"}, found)
      local by_line = prof:key_averages({group_by_stack_n = 1}):row "add"
      assert.equal(2, by_line.count)
      assert.matches("profile_spec.lua%(%d+%)", by_line.stack[1])
   end)

   it("has rows for modules by path, forward and backward", function()
      local prof = training({with_modules = true})
      local modules = prof:module_averages()
      local first, last = modules:row "Sequential.1 (Linear)", modules:row "Sequential.3 (Linear)"
      assert.equal(3, first.count)
      assert.equal(3, last.count)
      assert.is_true(last.backward_time_total > 0)
      assert.is_true(modules:row("Sequential").cpu_time_total >= first.cpu_time_total)
      assert.is_nil(nn.Module._watched.around)
   end)

   it("has rows for the collector's steps, the loader's waits and named parts", function()
      local data = torch.data.TensorDataset(torch.randn(8, 2))
      local prof = profiler.profile({}, function()
         for _ in torch.data.DataLoader(data, {batch_size = 4}):iter() do
            profiler.record_function("part", function()
               for _ = 1, 1500 do local _ = torch.empty(4) end
            end)
         end
         local _ <close> = profiler.record_function "rest"
      end)
      -- the loop calls next three times: for two batches, and to find the end of the data
      assert.equal(3, row(prof, "DataLoader.next").count)
      assert.equal(2, row(prof, "part").count)
      assert.equal(1, row(prof, "rest").count)
      assert.is_true(row(prof, "collector: young step").count >= 2)
   end)

   it("has rows for the program's own collections, and restores collectgarbage", function()
      local own = collectgarbage
      local prof = profiler.profile({}, function()
         collectgarbage()
         collectgarbage "collect"
         collectgarbage "step"
         assert.is_true(collectgarbage "count" > 0)
         assert.is_false(pcall(collectgarbage, "no such option"))
      end)
      assert.equal(3, row(prof, "collector: collectgarbage").count)
      assert.equal(own, collectgarbage)
      pcall(profiler.profile, {}, function() error "x" end)
      assert.equal(own, collectgarbage)
   end)

   it("has times of a device's work", function()
      local x = torch.randn(64, 64):to "sim"
      local prof = profiler.profile({activities = {"cpu", "sim"}}, function()
         local _ = x:mm(x)
      end)
      assert.is_true(row(prof, "mm").device_time_total > 0)
      assert.matches("Self device", prof:key_averages():table())
      prof = profiler.profile({activities = {"cpu"}}, function() local _ = x:mm(x) end)
      assert.equal(0, row(prof, "mm").device_time_total)
   end)

   it("has rows for kernels and streams of a device that reports them", function()
      local x = torch.randn(64, 64):to "sim"
      local function run() return x:mm(x):exp():sum():item() end
      local prof = profiler.profile({activities = {"cpu", "sim"}}, run)
      local counts, whole = {}, 0
      for _, event in prof:events() do
         if event.kind == "kernel" then
            assert.matches("^sim:0 stream %d+$", event.thread)
            assert.is_true(event.device_start > 0 and event.device_time >= 0)
            assert.equal(0, event.cpu_time)
            counts[event.name] = (counts[event.name] or 0) + 1
         else
            whole = whole + (event.device_time or 0)
         end
      end
      assert.equal(1, counts.gemm)
      assert.equal(1, counts.pointwise)
      assert.equal(1, counts.reduce)
      assert.is_true(row(prof, "gemm").device_time_total > 0)
      -- The rows of operators include the time of their kernels, so the total must not count the kernels again.
      local told = prof:key_averages():table():match "Self device time total: ([%d.]+)us"
      assert.is_nil(told and tonumber(told) > whole + 0.001 or nil)
      assert.matches("meanwhile, the sim:0 stream 0 was at work", prof:summary())
      shell.with_folder(function(folder)
         prof:export_chrome_trace(folder .. "/t")
         local trace = shell.read(folder .. "/t")
         assert.matches('"cat":"kernel","name":"gemm","pid":2,"tid":2', trace, 1, true)
         prof:export_html(folder .. "/h")
      end)
      prof = profiler.profile({activities = {"cpu"}}, run)
      assert.is_nil(row(prof, "gemm"))
   end)

   it("changes no result", function()
      local _, plain = training()
      local _, watched = training {record_shapes = true, profile_memory = true, with_stack = true,
         with_flops = true, with_modules = true}
      local before, after = plain:parameters(), watched:parameters()
      for i, p in ipairs(before) do assert.is_true(p:equal(after[i])) end
   end)

   it("returns itself and the function's results", function()
      local prof, a, b = profiler.profile({}, function() return 1, nil end)
      assert.equal("profiler.Profile", torch.type(prof))
      assert.equal(1, a)
      assert.is_nil(b)
   end)

   it("ends with its block, and at an error", function()
      do local _ <close> = profiler.profile() end
      local ok, message = pcall(profiler.profile, {}, function(prof)
         assert.is_true(prof.running)
         error "mine"
      end)
      assert.is_false(ok)
      assert.matches("mine", message)
      assert.is_false(torch._profiling())
      profiler.profile():stop()
   end)

   it("closes rows that an error or a coroutine has left open", function()
      local prof = profiler.profile({}, function()
         pcall(profiler.record_function, "failing", function() error "x" end)
         local co = coroutine.wrap(function()
            local _ <close> = profiler.record_function "inside"
            coroutine.yield()
         end)
         co()
         torch.ones(1)
      end)
      assert.equal(1, row(prof, "failing").count)
      assert.equal(1, row(prof, "inside").count)
      for _, event in prof:events() do assert.is_true(event.cpu_time >= 0) end
   end)

   it("holds two million events in 200 MB", function()
      local session = torch._profile_start {}
      for _ = 1, 2000000 do torch._span_close(torch._span_open("user", "x")) end
      session:stop()
      local state = session:state()
      assert.equal(2000000, state.events)
      assert.equal(0, state.dropped)
      assert.is_true(state.bytes < 200e6, state.bytes)
   end)
end)

describe("a schedule", function()
   it("goes through its cycles", function()
      local at, actions = profiler.schedule(1, 1, 2, 2, 1), {}
      for step = 0, 9 do actions[#actions + 1] = at(step) end
      assert.same({"none", "none", "warmup", "record", "record_and_save", "none", "warmup",
         "record", "record_and_save", "none"}, actions)
      assert.equal("record_and_save", profiler.schedule({active = 1})(7))
   end)

   it("gives each cycle to on_trace_ready", function()
      local seen = {}
      local x = torch.ones(2)
      profiler.profile({
         schedule = profiler.schedule {wait = 1, warmup = 1, active = 2, ["repeat"] = 2},
         on_trace_ready = function(prof) seen[#seen + 1] = row(prof, "add").count end,
      }, function(prof)
         for i = 1, 10 do
            for _ = 1, i do local _ = x + x end
            prof:step()
         end
      end)
      assert.same({3 + 4, 7 + 8}, seen)
   end)

   it("refuses arguments that make no sense", function()
      assert.raises("wait: expected an integer of at least 0, got -1",
         function() profiler.schedule {wait = -1, active = 1} end)
      assert.raises("active: expected an integer of at least 1", function() profiler.schedule {active = 0} end)
   end)
end)

describe("the table", function()
   it("has PyTorch's columns, the largest rows first", function()
      local prof = training {activities = {"cpu"}, with_flops = true, profile_memory = true}
      local text = prof:key_averages():table {sort_by = "count", row_limit = 2}
      for _, column in ipairs {"Name", "Self CPU %%", "Self CPU", "CPU total %%", "CPU total",
         "CPU time avg", "CPU Mem", "Self CPU Mem", "# of Calls", "Total FLOPs"} do
         assert.matches(column, text)
      end
      local lines = {}
      for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
      assert.equal(3 + 2 + 1 + 1, #lines)
      assert.matches("^AccumulateGrad .* 12 ", lines[4])
      assert.matches("^Self CPU time total: ", lines[7])
   end)

   it("suggests the nearest field", function()
      local prof = training {}
      assert.raises("unknown field self_cpu_tme_total; did you mean self_cpu_time_total",
         function() prof:key_averages():table {sort_by = "self_cpu_tme_total"} end)
   end)
end)

describe("the summary", function()
   it("advises a program that waits for its data", function()
      local set = torch.class("Slow", torch.data.Dataset)
      function set:__len() return 4 end
      function set:get(_)
         -- the loop runs for 0.1 s, so that most of the program's time is spent in it even on a busy machine
         local stop = torch.io.clock() + 0.1
         while torch.io.clock() < stop do end
         return torch.zeros(1)
      end
      local prof = profiler.profile({}, function()
         for _ in torch.data.DataLoader(set(), {batch_size = 2}):iter() do torch.ones(1) end
      end)
      local text = prof:summary()
      assert.matches("%d %%  waiting for data", text)
      assert.matches("num_workers", text)
   end)

   it("distinguishes too few workers from workers that are starting", function()
      -- Returns the advice for a program that waits for data during `waits` of 100 time units, while its worker is busy
      -- during `works` of them.
      local function text_of(waits, works)
         local session = {}
         function session:state() -- luacheck: ignore 212
            return {duration = 100, events = 2, memory_events = 0, dropped = 0}
         end
         function session:threads() return {"DataLoader worker 0"} end -- luacheck: ignore 212
         function session:event(i, record) -- luacheck: ignore 212
            local worker = i == 2
            record.kind, record.parent, record.inside, record.device_begin = "data", 0, 0, -1
            record.sequence = 0
            record.name = worker and "DataLoader.fetch" or "DataLoader.next"
            record.duration, record.thread = worker and works or waits, worker and 1 or 0
         end
         return require("tlua.profiler.summary").text(session)
      end
      assert.matches("raise the DataLoader's num_workers", text_of(60, 90), 1, true)
      assert.matches("60 % of the time the program waits for data, but its workers are at work for "
         .. "20 % at most", text_of(60, 20), 1, true)
      assert.matches("persistent_workers = true", text_of(60, 20), 1, true)
      assert.is_nil(text_of(10, 2):find "=>")
   end)

   it("distinguishes growing memory from memory that is freed again", function()
      -- Returns the advice for a program in which `n` garbage collections take 10 of 100 time units each. At the end,
      -- `bytes` are in use.
      local function text_of(n, bytes, name)
         local session = {}
         function session:state() -- luacheck: ignore 212
            return {duration = 100, events = n, memory_events = 1, dropped = 0}
         end
         function session:threads() return {} end -- luacheck: ignore 212
         function session:memory() -- luacheck: ignore 212
            return {bytes = bytes, category = "unknown", device = "cpu", cached = 0, time = 0}
         end
         function session:event(_, record) -- luacheck: ignore 212
            record.kind, record.name = "collector", name or "collector: young step"
            record.parent, record.duration, record.inside, record.device_begin = 0, 10, 0, -1
            record.thread, record.sequence = 0, 0
         end
         return require("tlua.profiler.summary").text(session)
      end
      assert.matches("60 %% of the time goes to the collector, with 3.00 Mb more alive", text_of(6, 3 << 20))
      assert.matches("what keeps growing", text_of(6, 3 << 20))
      assert.matches("60 %% of the time goes to the collector, and nothing keeps growing", text_of(6, 1000))
      -- one collection may be a coincidence, so it leads to no advice
      assert.is_nil(text_of(1, 3 << 20):find "=>")
      local asked = text_of(6, 1000, "collector: collectgarbage")
      assert.matches("calls collectgarbage itself, 6 times, which takes 60 %% of the time", asked)
      assert.is_nil(asked:find "keeps growing")
   end)

   it("gives no advice without a reason", function()
      local x = torch.randn(300, 300)
      collectgarbage "stop" -- stops automatic collections, which would be another cause of advice
      local text = profiler.profile({activities = {"cpu"}}, function()
         local _ = x:mm(x)
      end):summary()
      collectgarbage "restart"
      assert.is_nil(text:find "=>")
      assert.matches("operators, forward and backward %(1 calls%)", text)
   end)
end)

describe("a profile that is started by hand", function()
   it("records from its creation on, so that start before the first step changes nothing", function()
      local prof = profiler.profile {activities = {"cpu"}}
      torch.ones(1)
      assert.equal(prof, prof:start())
      torch.ones(1)
      prof:step()
      assert.raises("profiler.profile: start: the profile runs already", function() prof:start() end)
      prof:stop()
      assert.equal(2, row(prof, "ones").count)
   end)
end)

describe("wrong use", function()
   it("of a profile within a profile is an error, and the outer one continues", function()
      local prof = profiler.profile({}, function()
         assert.raises("profiles do not nest", function() profiler.profile() end)
         torch.ones(1)
      end)
      assert.equal(1, row(prof, "ones").count)
   end)

   it("of step after stop is an error", function()
      local prof = profiler.profile()
      prof:stop()
      assert.raises("step: the profile does not run", function() prof:step() end)
   end)

   it("of options is an error that suggests the nearest name", function()
      assert.raises("unknown option record_shape; did you mean record_shapes",
         function() profiler.profile {record_shape = true} end)
      assert.raises('activities: expected "cpu", "cuda" or "sim", got "tpu"',
         function() profiler.profile {activities = {"tpu"}} end)
   end)

   it("of results before they exist is an error", function()
      local prof = profiler.profile {schedule = profiler.schedule {wait = 5, active = 1}}
      assert.raises("nothing was recorded", function() prof:key_averages() end)
      prof:stop()
      local other = profiler.profile {}
      assert.raises("still records; call stop first", function() other:key_averages() end)
      other:stop()
      assert.raises("pass with_stack = true", function() other:export_stacks "x" end)
   end)

   it("of a folder without write access is an error in an export, but a message in training", function()
      local prof = profiler.profile({}, function() torch.ones(1) end)
      assert.raises("export_chrome_trace: /no/such/trace.json: ",
         function() prof:export_chrome_trace "/no/such/trace.json" end)
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", [[
            local handler = torch.profiler.tensorboard_trace_handler "/dev/null/such"
            torch.profiler.profile({on_trace_ready = handler}, function() torch.ones(1) end)
            print "went on"]])
         local output = shell.ok(shell.start() .. " " .. folder .. "/a.lua")
         assert.matches("/dev/null/such", output)
         assert.matches("went on", output)
      end)
   end)

   it("does not include a missing folder, which is created with its parents", shell.in_folder(function(folder)
      assert.raises("use_gzip: expected false; traces are not compressed, got true",
         function() profiler.tensorboard_trace_handler(folder, {use_gzip = true}) end)
      local handler = profiler.tensorboard_trace_handler(folder .. "/new/dir", "rank0")
      profiler.profile({on_trace_ready = handler}, function() torch.ones(1) end)
      assert.matches("^rank0%.%d+%.pt%.trace%.json\n$", shell.ok("ls " .. folder .. "/new/dir"))
   end))

   it("of the profile by on_trace_ready is an error, and the profile continues", function()
      local schedule = profiler.schedule {wait = 0, warmup = 0, active = 1, ["repeat"] = 0}
      for _, method in ipairs {"step", "stop", "start"} do
         local calls, events = 0, {}
         local prof = profiler.profile {schedule = schedule, on_trace_ready = function(prof)
            calls = calls + 1
            events[calls] = #prof
            if calls == 1 then prof[method](prof) end
         end}
         local _, message = pcall(prof.step, prof)
         assert.matches(("profile: %s: on_trace_ready cannot call it"):format(method), message, 1, true)
         torch.ones(2)
         prof:step()
         prof:stop()
         assert.same({1, 2, 1}, events)
      end
   end)

   it("by an abandoned coroutine ends when the collector frees the coroutine", function()
      local run = coroutine.wrap(function()
         local _ <close> = profiler.profile {with_modules = true}
         coroutine.yield()
      end)
      run()
      assert.is_true(torch._profiling())
      assert.is_function(nn.Module._watched.around)
      run = nil -- luacheck: ignore 311
      collectgarbage()
      assert.is_false(torch._profiling())
      assert.is_nil(nn.Module._watched.around)
   end)

   it("by an abandoned coroutine does not prevent a new profile", function()
      local run = coroutine.wrap(function()
         local _ <close> = profiler.profile {}
         coroutine.yield()
      end)
      run()
      run = nil -- luacheck: ignore 311
      assert.equal(1, #profiler.profile(function() torch.ones(1) end))
   end)
end)
