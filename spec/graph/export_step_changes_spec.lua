-- Tests values on which a training step depends besides its inputs, models and optimizers. A program of
-- torch.export_step must follow their changes, or name the change in an error at the export or at the next run.

local torch = require "tlua"
local nn, optim, F = torch.nn, torch.optim, torch.nn.functional

-- Returns a step whose loss is fn(model, x, optimizer), and the objects that the step uses.
local function step_of(fn)
   torch.manual_seed(1)
   local model = nn.Linear(4, 4)
   local optimizer = optim.SGD(model:parameters(), {lr = 0.1})
   return function(x)
      optimizer:zero_grad()
      local loss = fn(model, x, optimizer)
      loss:backward()
      optimizer:step()
      return loss:detach()
   end, {model = model, optimizer = optimizer}
end

local x <const> = torch.randn(6, 4)

local function square(model, input) return model(input):square():mean() end

-- Checks that a program runs before change() and refuses to run afterwards.
local function refuses(name, fn, change)
   local step, parts = step_of(fn)
   local program = torch.export_step(step, {x}, parts)
   program(x)
   local restore = change()
   local fine, message = pcall(program, x)
   if restore then restore() end
   assert.is_false(fine, name)
   assert.matches(("program: %s has changed since the export; export the step again"):format(name), message, 1, true)
end

-- Checks that a step cannot be exported.
local function no_export(pattern, fn, add_parts)
   local step, parts = step_of(fn)
   if add_parts then add_parts(parts) end
   assert.error_matches(function() torch.export_step(step, {x}, parts) end, pattern)
end

-- Checks that a program makes the same steps as the function, with change() between the second and the third step.
local function follows(make, change)
   local eager = step_of(make)
   local step, parts = step_of(make)
   local program = torch.export_step(step, {x}, parts)
   for i = 1, 4 do
      if change and i == 3 then change() end
      assert(eager(x):equal(program(x)), "step " .. i)
   end
end

describe("a program of a training step", function()
   it("refuses to run after the script has replaced a function of the library", function()
      local function replaced(owner, key, fn)
         refuses("the library's function " .. key, fn, function()
            local old = owner[key]
            owner[key] = function(...) return old(...) end
            return function() owner[key] = old end
         end)
      end
      replaced(torch, "add", function(m, t) return torch.add(m(t), 1):square():mean() end)
      replaced(F, "relu", function(m, t) return F.relu(m(t)):square():mean() end)
      replaced(F, "linear", square)
      replaced(torch.Tensor, "square", square)
      local add = torch.add
      torch.add = function(...) return add(...) * 2 end
      refuses("the library's function add", function(m, t) return torch.add(m(t), 1):square():mean() end, function()
         torch.add = add
      end)
   end)

   it("refuses to run after a key of a table is new, gone or another one, if the step reads all keys", function()
      local weights = {a = 1, b = 2}
      local function summed(m, t)
         local loss = square(m, t)
         for _, weight in pairs(weights) do loss = loss + weight end
         return loss
      end
      local function set(key, value)
         return function()
            local old = weights[key]
            weights[key] = value
            return function() weights[key] = old end
         end
      end
      refuses("weights.c", summed, set("c", 3))
      refuses("weights.a", summed, set("a", nil))
      refuses("weights.b", summed, set("b", 3))
      weights.a, weights.b = nil, nil
      refuses("weights.c", summed, set("c", 3))
      local values, list, none = {}, {}, {}
      for i = 1, 20 do values[i], list[i] = 1, 1 end
      refuses("values[20]", function(m, t) return square(m, t) * torch.tensor(values):sum() end, function()
         values[20] = 2
      end)
      refuses("list[18]", function(m, t) return square(m, t) * list[18] end, function() list[18] = 2 end)
      refuses("none[1]", function(m, t) return square(m, t) * (#none + 1) end, function() none[1] = 1 end)
      local many = {}
      for i = 1, 3000 do many[i] = 1 end
      refuses("many[3000]", function(m, t) return square(m, t) * torch.tensor(many):sum() end, function()
         many[3000] = 2
      end)
      local deep = {a = {b = {c = {d = {e = {f = 1}}}}}}
      refuses("deep.a.b.c.d.e.f", function(m, t) return square(m, t) * deep.a.b.c.d.e.f end, function()
         deep.a.b.c.d.e.f = 2
      end)
      package.loaded["spec.graph.settings"] = {gain = 1}
      refuses("spec.graph.settings.gain", function(m, t)
         return square(m, t) * require "spec.graph.settings".gain
      end, function() package.loaded["spec.graph.settings"].gain = 2 end)
      package.loaded["spec.graph.settings"] = nil
   end)

   it("sees new values in the memory of a tensor outside of the model, or refuses to run", function()
      for _, w in ipairs {torch.ones(4), torch.tensor(1.0), torch.ones(4, 6):t(), torch.ones(4, {dtype = "float64"})} do
         follows(function(m, t) return (m(t) * w:float()):square():mean() end, function() w:mul_(2) end)
      end
      local full = torch.ones(4, 2)
      for _, w in ipairs {full:select(2, 1), full[1][1]:expand(4)} do
         refuses("the value of w", function(m, t) return (m(t) * w):square():mean() end, function() full:fill_(2) end)
      end
      local factor, sizes = torch.tensor(1.0), torch.tensor {2, 2}
      refuses("the value of factor", function(m, t)
         return factor:item() > 1.5 and square(m, t) * 2 or square(m, t)
      end, function() factor:fill_(2) end)
      refuses("the value of sizes", function(m, t) return m(t):split(sizes:tolist(), 2)[1]:mean() end, function()
         sizes[1], sizes[2] = 1, 3
      end)
      local w = torch.ones(4)
      local step, parts = step_of(function(m, t) return (m(t) * w):square():mean() end)
      local program = torch.export_step(step, {x}, parts)
      w.data = torch.zeros(4)
      assert.error_matches(function() program(x) end, "program: w has another memory or dtype than in the export")
   end)
end)

describe("the export of a training step", function()
   it("refuses a number that changes from call to call and is read", function()
      local n, state, on = 0, {n = 0}, false
      local function changes(name)
         return "export_step: " .. name .. " has another value in each call of the function, which reads it; a program "
            .. "would repeat the value of the example; pass it as an input"
      end
      no_export(changes "the variable n", function(m, t)
         n = n + 1
         return n % 50 == 0 and square(m, t) * 2 or square(m, t)
      end)
      no_export(changes "state.n", function(m, t)
         state.n = state.n + 1
         return state.n > 50 and square(m, t) * 2 or square(m, t)
      end)
      no_export(changes "the variable n", function(m, t, optimizer)
         n = n + 1
         optimizer.param_groups[1].lr = n < 100 and 0.1 or 0.01
         return square(m, t)
      end)
      no_export(changes "the variable on", function(m, t)
         on = not on
         return on and square(m, t) * 2 or square(m, t)
      end)
      local history = {}
      no_export(changes "the length of history", function(m, t)
         local loss = square(m, t)
         history[#history + 1] = loss:detach()
         return #history > 50 and loss * 2 or loss
      end)
      no_export(changes "calls", function(m, t)
         m.calls = (m.calls or 0) + 1
         return m.calls > 50 and square(m, t) * 2 or square(m, t)
      end)
      local counts, key = {0, part = 0}, "part"
      no_export(changes "counts%[1%]", function(m, t)
         counts[1] = counts[1] + 1
         return counts[1] > 50 and square(m, t) * 2 or square(m, t)
      end)
      no_export(changes "counts.part", function(m, t)
         counts[key] = counts[key] + 1
         return counts[key] > 50 and square(m, t) * 2 or square(m, t)
      end)
      local factors = torch.ones(100):tolist()
      no_export(changes "the length of factors", function(m, t) return square(m, t) * table.remove(factors) end)
      no_export(changes "the length of list", (function()
         local list = {}
         return function(m, t)
            list[#list + 1] = 1
            local loss = square(m, t)
            for i in ipairs(list) do loss = i > 50 and loss * 2 or loss end
            return loss
         end
      end)())
      follows(function(m, t) -- these counters have no effect
         n = n + 1
         m.calls = (m.calls or 0) + 1
         counts[1] = counts[1] + 1
         counts[key] = counts[key] + 1
         history[#history + 1] = t:sum()
         table.insert(history, "one more")
         state.n = state.n - 2
         state.m = (state.m or 0) + 1
         return square(m, t)
      end)
   end)

   it("accepts counts that grow by results of calls and are not read", function()
      local seen, stats = 0, {rows = 0, log = ""}
      follows(function(m, t)
         seen = seen + t:size(1) * #t.shape
         stats.rows = (stats.rows or 0) + t:size(1)
         stats.log = stats.log .. ("%d "):format(t:size(2))
         m.elements = (m.elements or 0) - 2 * m.weight:numel()
         return square(m, t)
      end)
   end)

   it("accepts means of counts that are not read, and refuses those that are", function()
      local Meter = {}
      Meter.__index = Meter
      function Meter:update(n)
         self.sum = self.sum + n
         self.count = self.count + 1
         self.mean = self.sum / self.count
         self.text = "mean: " .. self.mean
      end
      local meter, total, per_call = setmetatable({sum = 0, count = 0}, Meter), 0, 0
      follows(function(m, t)
         meter:update(t:size(1))
         m.started = torch.io.clock()
         local loss = square(m, t)
         m.elapsed = torch.io.clock() - m.started
         total = total + t:size(1)
         per_call = total / 2
         return loss
      end)
      local function refused(name, fn)
         no_export("export_step: " .. name .. " has another value in each call of the function, which reads it", fn)
      end
      refused("meter.[%l]+", function(m, t)
         meter:update(t:size(1))
         return square(m, t) * (meter.text == "mean: 1e9" and 2 or 1)
      end)
      refused("the variable total", function(m, t)
         total = total + t:size(1)
         per_call = total // 1000
         return square(m, t) * (per_call > 5 and 2 or 1)
      end)
      refused("%l+", function(m, t)
         m.n = (m.n or 0) + 1
         m.half = m.n / 2
         local rest = m.half
         return square(m, t) * (rest > 50 and 2 or 1)
      end)
   end)

   it("refuses a variable whose table is replaced, if fields of the table are read", function()
      local head
      for i = 100, 1, -1 do head = {number = i, after = head} end
      no_export("export_step: the variable head has another value in each call of the function, which reads it",
         function(m, t)
            local number = head.number
            head = head.after
            return square(m, t) * (number > 50 and 2 or 1)
         end)
      local log
      follows(function(m, t)
         log = {rows = t:size(1)}
         log.rows = log.rows + 1
         return square(m, t)
      end)
   end)

   it("refuses changes of the library's own fields of layers", function()
      local Annealed, parent = torch.class("spec.Annealed", nn.Dropout)
      function Annealed:forward(input)
         self.calls = (self.calls or 0) + 1
         self.p = 1 / (10 + self.calls)
         return parent.forward(self, input)
      end
      local drop, leaky, norm = Annealed(0.5), nn.LeakyReLU(0.5), nn.BatchNorm1d(4)
      local function refused(name, fn)
         no_export(name, fn, function(parts) parts.model = {parts.model, drop, leaky, norm} end)
      end
      refused("p has another value in each call", function(m, t) return square(drop, m(t)) end)
      refused("negative_slope has another value in each call", function(m, t)
         leaky.negative_slope = leaky.negative_slope * 0.9
         return square(leaky, m(t))
      end)
      refused("momentum has another value in each call", function(m, t)
         norm.momentum = norm.momentum * 0.9
         return square(norm, m(t))
      end)
   end)

   it("refuses counts that are read while they grow", function()
      local n, a, b, list = 0, 0, 0, {}
      local function refused(name, fn)
         no_export("export_step: " .. name .. " has another value in each call of the function, which reads it", fn)
      end
      local function identity(v) return v end
      refused("the variable n", function(m, t)
         n = n + identity(n > 50 and 2 or 1)
         return square(m, t)
      end)
      refused("the variable n", function(m, t)
         n = identity(n) + 1
         return square(m, t)
      end)
      refused("the variable [ab]", function(m, t)
         a, b = b, a + t:size(1)
         return square(m, t) * (a > 500 and 2 or 1)
      end)
      refused("list[%l.]*", function(m, t)
         list.m = list.m or {count = 0}
         list.m.count, list.last = list.m.count + t:size(1), list.m.count
         return square(m, t) * (list.last > 500 and 2 or 1)
      end)
   end)

   it("refuses counts under computed keys and in tables of modules", function()
      local key = "part"
      local function refused(name, count)
         no_export("export_step: " .. name .. " has another value in each call of the function, which reads it",
            function(m, t, optimizer) return square(m, t) * (count(m, optimizer, t) > 50 and 2 or 1) end)
      end
      refused("optimizer.param_groups%[1%].part", function(_, optimizer)
         local group = optimizer.param_groups[1]
         group[key] = (group[key] or 0) + 1
         return group[key]
      end)
      torch.part = 0
      refused("torch.part", function()
         torch[key] = torch[key] + 1
         return torch[key]
      end)
      torch.part = nil
      refused("counts.rows 6", function(m, _, t)
         m.counts = m.counts or {}
         local name = "rows " .. #t
         m.counts[name] = (m.counts[name] or 0) + 1
         return m.counts[name]
      end)
      local Counter = {}
      Counter.__index = Counter
      function Counter:next()
         self.n = self.n + 1
         return self.n
      end
      refused("counter.n", function(m)
         m.counter = m.counter or setmetatable({n = 0}, Counter)
         return m.counter:next()
      end)
      refused("the length of history", function(m)
         m.history = m.history or {}
         m.history[#m.history + 1] = 1
         return #m.history
      end)
   end)

   it("names a variable in which each call leaves another tensor", function()
      local total = torch.zeros(1)
      no_export("calls leave other tensors in the variable total: if the function reads the tensor of an earlier call, "
         .. "keep it in a buffer or in a tensor of the option `state`, and change it in place, as copy_ does",
         function(m, t)
            local loss = square(m, t)
            total = total * 0.5 + loss:detach()
            return loss
         end)
   end)

   it("refuses a count in local variables, objects of the library, new tables, or read by rawget", function()
      local function refused(name, count)
         no_export("export_step: " .. name .. " has another value in each call of the function, which reads it; a "
            .. "program would repeat the value of the example; pass it as an input, or change it outside of the "
            .. "function if it is only for a log", function(m, t, optimizer)
            return count(m, optimizer) > 50 and square(m, t) * 2 or square(m, t)
         end)
      end
      local n, state, key = 0, {n = 0, part = 0}, "part"
      refused("the variable n", function()
         local v = n + 1
         n = v
         return v
      end)
      refused("the variable n", function()
         local v = n
         n = v + 1
         return v
      end)
      refused("state.n", function()
         local v = state.n + 1
         state.n = v
         return v
      end)
      local flag
      refused("the variable flag", function()
         if not flag then flag = true else flag = nil end
         return 1
      end)
      local function count_in(owner)
         return function(m, optimizer)
            local of = owner(m, optimizer)
            of.count = (of.count or 0) + 1
            return of.count
         end
      end
      torch.count, F.count = 0, 0 -- these tables refuse reads of missing fields
      for name, owner in pairs {
         ["optimizer.count"] = function(_, optimizer) return optimizer end,
         ["optimizer.param_groups.count"] = function(_, optimizer) return optimizer.param_groups end,
         ["optimizer.param_groups%[1%].count"] = function(_, optimizer) return optimizer.param_groups[1] end,
         ["optimizer.state.count"] = function(_, optimizer) return optimizer.state end,
         ["torch.count"] = function() return torch end,
         ["torch.nn.functional.count"] = function() return F end,
         ["nn.Linear.count"] = function(m) return getmetatable(m) end,
      } do
         refused(name, count_in(owner))
      end
      torch.count, F.count, nn.Linear.count = nil, nil, nil
      refused("state.n", function()
         rawset(state, "n", rawget(state, "n") + 1)
         return rawget(state, "n")
      end)
      local function advance(of, name)
         of[name] = of[name] + 1
         return of[name]
      end
      refused("state.part", function() return advance(state, key) end)
      refused("the variable head", (function()
         local head
         return function()
            head = {next = head}
            local length, item = 0, head
            while item do length, item = length + 1, item.next end
            return length
         end
      end)())
      local function constant(k) return function() return k end end
      local get = constant(0)
      refused("the variable get", function()
         get = constant(get() + 1)
         return get()
      end)
      local set = {}
      refused("set%[table%]", function()
         set[{}] = true
         local length = 0
         for _ in next, set do length = length + 1 end
         return length
      end)
      local a, b, c = {}, {}, {}
      a.after, b.after, c.after = b, c, a
      local now = a
      refused("the variable now", function()
         now = now.after
         return now == c and 1 or 2
      end)
      local dropout = nn.Dropout(0)
      refused("calls of dropout", function()
         dropout.calls = (dropout.calls or 0) + 1
         return dropout.calls
      end)
      local options = {beta = 1}
      no_export("export_step: options.beta has another value in each call", function(m, t)
         options.beta = options.beta + 1
         return F.smooth_l1_loss(m(t), t, options)
      end)
      local last
      follows(function(m, t) -- tables and functions that are the same in each call have no effect
         last = {loss = square(m, t), size = t:size(1)}
         get = function() return last.loss end
         rawset(state, "size", t:size(1))
         return get()
      end)
   end)

   it("refuses a tensor that one call leaves to the next in a variable or a field", function()
      local pattern = "constant_1, a tensor that the model makes, depends on values of the inputs"
      local hidden
      local state = {}
      no_export(pattern, function(m, t)
         local y = hidden and m(t) + hidden or m(t)
         hidden = y:detach()
         return y:square():mean()
      end)
      no_export(pattern, function(m, t)
         local loss = square(m, t)
         state.mean = state.mean and state.mean * 0.9 + loss:detach() * 0.1 or loss:detach()
         return loss * state.mean
      end)
      no_export(pattern, function(m, t)
         state.parts = {state.parts and state.parts[1] * 0.5 or t:sum()}
         return square(m, t) * state.parts[1]
      end)
      local deep = {a = {b = {c = {d = torch.zeros(6, 4)}}}}
      no_export(pattern, function(m, t)
         local y = m(t) + deep.a.b.c.d
         deep = {a = {b = {c = {d = y:detach()}}}}
         return y:square():mean()
      end)
      local object = setmetatable({last = torch.zeros(6, 4)}, {__index = {}})
      no_export(pattern, function(m, t)
         local y = m(t) + object.last
         object = setmetatable({last = y:detach()}, getmetatable(object))
         return y:square():mean()
      end)
      local count, mask = torch.zeros({}, {dtype = "int64"}), torch.zeros(6, 4):bool()
      no_export(pattern, function(m, t)
         count = count + 1
         return square(m, t) * count
      end)
      no_export(pattern, function(m, t)
         local y = m(t):masked_fill(mask, 0)
         mask = y:detach():gt(0)
         return y:square():mean()
      end)
      local down = torch.zeros({})
      no_export(pattern, function(m, t)
         down = down - 1
         return square(m, t) * down
      end)
      follows(function(m, t) -- each call sets the field before it reads the field
         state.positive = m(t):detach():gt(0)
         state.output = m(t):masked_fill(state.positive, 0)
         state.loss = state.output:square():mean()
         return state.loss
      end)
   end)

   it("leaves tensors, gradients and optimizers as they were if it fails", function()
      local total, strict = torch.zeros(4), setmetatable({state = {}}, {__index = function() error "no field" end})
      for _, given in ipairs {"", "model", "optimizer"} do
         local step, parts = step_of(function(m, t)
            total:add_(1)
            return square(m, t) + #strict.state
         end)
         local weight = parts.model.weight
         local before = weight:detach():clone()
         assert.is_false(pcall(torch.export_step, step, {x}, {[given] = parts[given]}))
         assert(weight:equal(before) and total:equal(torch.zeros(4)) and not weight.grad, given)
         assert(given == "optimizer" or next(parts.optimizer.state) == nil)
         weight.grad = torch.ones(4, 4)
         assert.error_matches(function()
            torch.export_step(function(t)
               square(parts.model, t):backward()
               error "no luck"
            end, {x}, {})
         end, "no luck")
         assert(weight.grad:equal(torch.ones(4, 4)))
      end
   end)

   it("refuses calls of functions whose results may differ next time", function()
      local function refused(name, fn, advice)
         no_export(name .. " is called, whose result or effect may differ next time, but a program repeats only "
            .. "operators; " .. (advice or "") .. "pass its result as an input", fn)
      end
      local random = math.random
      refused("math.random", function(m, t) return random() < 2 and square(m, t) or t:sum() end,
         "use torch.rand, which gives other numbers each time, or ")
      refused("os.time", function(m, t) return os.time() > 0 and square(m, t) or t:sum() end,
         "call it outside of the function, or ")
      refused("io.open", function(m, t) return io.open "/nonexistent" and t:sum() or square(m, t) end)
      local file <close> = assert(io.open("README.md"))
      refused("file:read", function(m, t) return square(m, t) * #file:read(1) end)
      local gain = coroutine.wrap(function() while true do coroutine.yield(1) end end)
      refused("a coroutine", function(m, t) return square(m, t) * gain() end)
      follows(function(m, t)
         io.write ""
         return os.getenv "TLUA_NO_SUCH_VARIABLE" and t:sum() or square(m, t)
      end)
   end)

   it("refuses learning rates and epochs that are read as numbers, and gradients of other tensors", function()
      no_export("the function reads a number of an optimizer, such as its learning rate", function(m, t, optimizer)
         return square(m, t) * optimizer.param_groups[1].lr
      end)
      no_export("the function reads a number of an optimizer, such as its learning rate", function(m, t, optimizer)
         return square(m, t) + m.weight:square():sum() * (optimizer.param_groups[1].weight_decay + 0.1)
      end, function(parts) parts.optimizer.param_groups[1].weight_decay = 0.5 end)
      local schedule
      local function add_schedule(parts)
         schedule = optim.lr_scheduler.StepLR(parts.optimizer, 50)
         parts.scheduler = schedule
      end
      no_export("the function reads a number of an optimizer, such as its learning rate", function(m, t)
         local loss = square(m, t) * schedule:get_last_lr()[1]
         schedule:step()
         return loss
      end, add_schedule)
      no_export("the function reads last_epoch of a scheduler", function(m, t)
         schedule:step()
         return schedule.last_epoch > 50 and square(m, t) * 2 or square(m, t)
      end, add_schedule)
      for _, place in ipairs {"local", "model"} do
         local warmup
         local pattern = "the function steps optim.lr_scheduler.StepLR, which is not in the option `scheduler`"
         no_export(pattern, function(m, t)
            (place == "model" and m.warmup or warmup):step()
            return square(m, t)
         end, function(parts)
            local made = optim.lr_scheduler.StepLR(parts.optimizer, 50)
            if place == "model" then parts.model.warmup = made else warmup = made end
         end)
      end
      local settings = {lr = 2}
      follows(function(m, t) return square(m, t) * settings.lr end)
      local w = torch.ones(4):requires_grad_()
      w.grad = torch.ones(4)
      no_export("the function reads the gradient of w, which is no tensor of the model", function(m, t)
         return (m(t) * w.grad):square():mean()
      end)
   end)
end)
