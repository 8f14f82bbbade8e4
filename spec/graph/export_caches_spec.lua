-- Tests torch.export of models whose first call differs from later ones, for example because it fills a cache, and of
-- models that call functions whose results differ in each call.

local torch = require "tlua"
local nn = torch.nn

local x <const> = torch.randn(6, 4)

-- Checks that a program has the results of the model for six inputs of `rows` rows each.
local function follows(model, program, rows)
   for i = 1, 6 do
      local t = torch.randn(rows and rows[i] or 6, 4)
      assert(model(t):equal(program(t)), "input " .. i)
   end
end

local function no_export(pattern, model, options)
   assert.error_matches(function() torch.export(model, {x}, options) end, pattern)
end

-- Returns a module whose method forward is the function.
local function module_of(forward)
   local model = nn.Module()
   model.linear = nn.Linear(4, 6)
   model.forward = forward
   return model
end

describe("torch.export of a model that fills a cache", function()
   it("records a later call", function()
      local list, cache = {}, nil
      local models = {
         field = module_of(function(self, t)
            self.mask = self.mask or torch.ones(6, 6):tril()
            return self.linear(t):masked_fill(self.mask:eq(0), -1)
         end),
         buffer = module_of(function(self, t)
            if not self.place then self:register_buffer("place", torch.linspace(0, 1, 6)) end
            return self.linear(t) + self.place
         end),
         layer = module_of(function(self, t)
            self.last = self.last or nn.Linear(6, 2)
            return self.last(self.linear(t))
         end),
         length = module_of(function(self, t)
            if self.length ~= #t then self.length, self.table = #t, torch.arange(#t):view(#t, 1):cos() end
            return self.linear(t) * self.table
         end),
         size = function(t)
            list[#t] = list[#t] or torch.ones(#t, #t):tril()
            return list[#t]:matmul(t)
         end,
         text = function(t)
            local key = ("%d %s"):format(#t, t.dtype)
            if not list[key] then list[key] = torch.ones(#t, #t):triu() end
            return list[key]:matmul(t)
         end,
         variable = function(t)
            cache = cache or torch.eye(4)
            return t:matmul(cache)
         end,
      }
      for name, model in pairs(models) do
         local fine, program = pcall(torch.export, model, {x})
         assert(fine, name .. ": " .. tostring(program))
         follows(model, program)
      end
   end)

   it("takes parts of a table in a variable or a field, which may grow", function()
      local whole, grown, dynamic = torch.arange(128):view(128, 1):cos(), nil, {dynamic = {t = {1}}}
      local sizes <const> = {1, 2, 6, 7, 40, 96}
      local function fixed(t) return t * whole[{{1, #t}}] end
      local function grows(t)
         if not grown or #grown < #t then grown = torch.arange(#t):view(#t, 1):cos() end
         return t * grown[{{1, #t}}]
      end
      local model = module_of(function(self, t)
         if not self.table or #self.table < #t then self.table = torch.ones(#t, #t):tril() end
         return self.table[{{1, #t}, {1, #t}}]:matmul(self.linear(t))
      end)
      local rope
      local function nested(t)
         if not rope or rope.rows < #t then rope = {rows = #t, cos = torch.arange(#t):view(#t, 1):cos()} end
         return t * rope.cos[{{1, #t}}]
      end
      for _, fn in ipairs {fixed, grows, nested} do follows(fn, torch.export(fn, {x}, dynamic), sizes) end
      follows(model, torch.export(model, {x}, {names = {"t"}, dynamic = {t = {1}}}), sizes)
      assert(torch.export(fixed, {x}, dynamic):state_dict().whole:equal(whole))
   end)

   it("names the tensors that each call replaces", function()
      local total
      local model = module_of(function(self, t)
         self.past = self.past and torch.cat {self.past, t} or t
         return self.past:sum(1)
      end)
      local keep <const> = ": if the function reads the tensor of an earlier call, keep it in a buffer, and change "
         .. "it in place, as copy_ does"
      no_export("calls leave other tensors in past" .. keep, model)
      no_export("calls leave other tensors in the variable total" .. keep, function(t)
         total = total and total * 0.9 + t:sum(1) or t:sum(1)
         return total
      end)
      model.forward = function(self, t)
         if self.rows ~= #t then self.rows, self.mask = #t, torch.ones(#t, #t):tril() end
         return self.mask:matmul(self.linear(t))
      end
      no_export("calls leave other tensors in mask: compute such a tensor in each call, or once for the largest size",
         model, {names = {"t"}, dynamic = {t = {1}}})
      local sum = torch.zeros(4)
      no_export("add_: it changes a tensor that is a constant of the program, .*register it as a buffer of the model",
         function(t) return sum:add_(t:sum(1)) end)
   end)

   it("is refused once if the first call sets a buffer", function()
      local model = module_of(function(self, t)
         if not self.ready then
            self.scale:copy_(t:std(1))
            self.ready = true
         end
         return t / self.scale
      end)
      model.scale = nn.Buffer(torch.ones(4))
      no_export("export: the first call of the model sets buffer scale, and later calls do not; it has been set by the "
         .. "example; export the model again, or set it by a call of the model before the export", model)
      assert(model.scale:equal(x:std(1)))
      follows(model, torch.export(model, {x}))
   end)
end)

describe("torch.export of a model that asks whether it is exported", function()
   it("gets the same answer in all calls", function()
      local seen = {}
      local function model(t)
         seen[#seen + 1] = torch.compiler.is_exporting()
         return torch.compiler.is_exporting() and t * 2 or t
      end
      local program = torch.export(model, {x})
      assert(program(x):equal(x * 2) and #seen == 2 and seen[1] and seen[2])
      assert(torch.compile(model)(x):equal(x))
      assert.is_false(seen[#seen])
   end)
end)

describe("torch.export of a model with a count", function()
   it("accepts one that only grows, by any number", function()
      local seen, counts = 0, {}
      local model = module_of(function(self, t)
         seen = seen + t:size(1)
         self.elements = (self.elements or 0) + 2 * t:numel() * self.linear.out_features
         counts.rows = (counts.rows or 0) + t:size(1)
         local start = os.clock()
         local y = self.linear(t)
         self.seconds = (self.seconds or 0) + os.clock() - start
         return y
      end)
      follows(model, torch.export(model, {x}))
   end)

   it("is refused if it is read", function()
      local model, n, other = nn.Linear(4, 4), 0, nil
      model.counts = {}
      for name, forward in pairs {
         ["counts.rows 6"] = function(t)
            local key = "rows " .. #t
            model.counts[key] = (model.counts[key] or 0) + 1
            return model.counts[key] > 50 and t * 2 or t
         end,
         ["the variable n"] = function(t)
            n, other = n + t:size(1), n
            return t * (other and 1 or 2)
         end,
         ["the variable m"] = (function()
            local m = 0
            return function(t)
               m = m + (m > 400 and t:size(1) or 1)
               return t
            end
         end)(),
         ["counts.inner.deep"] = function(t)
            local inner = model.counts.inner or {deep = 0}
            model.counts.inner = inner
            inner.deep = inner.deep + 1
            return inner.deep > 50 and t * 2 or t
         end,
      } do
         model.forward = function(_, t) return forward(t) end
         no_export("export: " .. name .. " has another value in each call", model)
      end
   end)
end)

describe("torch.export of a model that calls a function of Lua whose result differs", function()
   it("names math.random, a coroutine, and a clock on which operators depend", function()
      no_export("export: .*export_caches_spec.lua:%d+: math.random is called, .* but a program repeats only operators; "
         .. "use torch.rand, which gives other numbers each time, or pass its result as an input",
         function(t) return math.random() < 0.5 and t or t * 2 end)
      no_export("torch.manual_seed is called, .* but a program repeats only operators; call it outside of the function",
         function(t)
            torch.manual_seed(1)
            return t + torch.randn(4)
         end)
      assert(torch.export(function(t)
         torch.manual_seed(1)
         return t * 2
      end, {x})(x):equal(x * 2))
      local next_number = coroutine.wrap(function() for n = 1, 1000 do coroutine.yield(n) end end)
      no_export("a coroutine is called, whose result", function(t) return next_number() > 50 and t or t * 2 end)
      local time = os.time
      for name, fn in pairs {
         ["os.time"] = function(t) return t * (os.time() % 1000) end,
         ["os.clock"] = function(t) return t * os.clock() end,
         ["os.date"] = function(t) return t * tonumber(os.date "%S") end,
      } do
         no_export("export_caches_spec.lua:%d+: the operators depend on the result of " .. name .. ", and a program "
            .. "would repeat the result; pass it as an input", fn)
      end
      no_export("the operators depend on the result of os.time", function(t) return t * (time() % 1000) end)
      assert.equal(time, os.time)
   end)

   it("accepts clocks for a log, and coroutines that end with the call", function()
      local times, layers = {}, {nn.Linear(4, 4), nn.Linear(4, 4)}
      local function model(t)
         local start = os.clock()
         for layer in coroutine.wrap(function() for _, item in ipairs(layers) do coroutine.yield(item) end end) do
            t = layer(t)
         end
         times[#times + 1] = ("%s %d %g"):format(os.date "%H:%M", os.time(), os.clock() - start)
         return t
      end
      follows(model, torch.export(model, {x}))
   end)
end)

describe("a program on a device that was seeded separately", function()
   local kind <const> = require("spec.support.device").name or "sim"

   it("draws the numbers of that device, as the model does", function()
      local t, model = torch.ones(64, {device = kind}), nn.Dropout(0.5)
      local w = torch.ones(64, {device = kind, requires_grad = true})
      local sgd = torch.optim.SGD({w}, {lr = 0.1})
      local function step(input)
         sgd:zero_grad()
         local loss = model(input * w):sum()
         loss:backward()
         sgd:step()
         return loss:detach()
      end
      torch.manual_seed(1)
      for _, separate in ipairs {true, false} do
         if separate then torch[kind].manual_seed_all(5) end
         local state = torch[kind].get_rng_state()
         local program = torch.export(model, {t})
         local trained = torch.export_step(step, {t}, {optimizer = sgd})
         local compiled = torch.compile(model)
         for _, fn in ipairs {program, compiled} do
            torch[kind].set_rng_state(state)
            local expected = {}
            for i = 1, 4 do expected[i] = model(t) end
            torch[kind].set_rng_state(state)
            for i = 1, 4 do assert(expected[i]:equal(fn(t)), i) end
         end
         torch[kind].set_rng_state(state)
         local expected = step(t)
         torch.no_grad(function() w:fill_(1) end)
         torch[kind].set_rng_state(state)
         assert(trained(t):equal(expected))
         torch.no_grad(function() w:fill_(1) end)
         torch.manual_seed(1)
      end
   end)
end)
