-- Tests which calls of a compiled function run as programs, and that a program is not used after something that it
-- depends on has changed.
local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional

local x <const>, y <const> = torch.arange(1, 7, {dtype = "float32"}):view(2, 3), torch.ones(2, 3)

-- A backend that returns the program itself. If a backend is given, torch.compile does not compare times. Without one,
-- it would often reject programs of calls as small as these, because they are not faster.
local function take_program(graph)
   local program = graph:program()
   return function(...) return program(...) end
end

local function compile(fn, options)
   options = options or {}
   options.backend = take_program
   return torch.compile(fn, options)
end

local function warm(fn, ...)
   for _ = 1, 4 do fn(...) end
end

local function explain(fn, ...) return torch.compiler.explain(fn, ...) end

-- Checks that a call does not become a program, and that the stated reason contains the text.
local function stays(text, fn, ...)
   local _ <close> = torch.no_grad()
   local found = explain(fn, ...)
   assert.is_nil(found.program)
   assert.truthy(found.reason:find(text, 1, true), text .. ": " .. found.reason)
end

-- Checks that a compiled function returns the same as the original function, before and after a change.
local function follows(change, fn, ...)
   local _ <close> = torch.no_grad()
   local fast = compile(fn)
   warm(fast, ...)
   assert.is_true(torch.equal(fn(...), fast(...)))
   change()
   for _ = 1, 5 do assert.is_true(torch.equal(fn(...), fast(...))) end
end

describe("torch.compile", function()
   it("runs a program from the third call on", function()
      local calls = 0
      local function body(a, b) return a * 2 + b end
      local fast = torch.compile(body, {backend = function(graph, inputs)
         assert.equal(2, #inputs)
         local program = graph:program()
         return function(...)
            calls = calls + 1
            return program(...)
         end
      end})
      for k = 1, 5 do
         assert.same((x * 2 + y):tolist(), fast(x, y):tolist())
         assert.equal(math.max(k - 2, 0), calls)
      end
   end)

   it("returns a module with the parameters and the methods of the original", function()
      local model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()):eval()
      local fast = torch.compile(model)
      assert.is_true(torch.isinstance(fast, nn.Module))
      assert.equal("_orig_mod.1.weight", (fast:named_parameters()()))
      assert.equal(model[1], fast[1])
      assert.equal(2, #fast)
      fast:train()
      assert.is_true(model.training)
      assert.is_true(torch.equal(model(x), fast(x)))
   end)

   it("merges batch norm into the convolution, and follows new values", function()
      local _ <close> = torch.no_grad()
      local model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()):eval()
      model[2].running_mean:uniform_()
      model[2].running_var:uniform_(0.5, 2)
      local image = torch.randn(2, 3, 6, 6)
      local found = explain(model, image)
      assert.equal(2, found.calls)
      local fast = compile(model)
      warm(fast, image)
      for k = 1, 8 do
         assert.is_true(torch.allclose(model(image), fast(image), {atol = 1e-5}))
         model[2].weight:mul_(1 + k / 10)
         model[1].weight:add_(0.01)
      end
   end)

   it("computes constants once, and removes equal and unused calls", function()
      local _ <close> = torch.no_grad()
      local w = torch.randn(3, 3)
      local function fn(a)
         local unused = a:exp() -- luacheck: ignore unused
         return (a:matmul(w * 2) + a:sin() * a:sin()):tanh()
      end
      local found = explain(fn, x)
      assert.truthy(found.program, found.reason)
      local _, count = tostring(found.program):gsub("sin%(", "")
      assert.equal(1, count)
      assert.is_nil(tostring(found.program):find("exp(", 1, true))
      assert.is_nil(tostring(found.program):find("mul(constant", 1, true))
      local fast = compile(fn)
      warm(fast, x)
      w:add_(1)
      assert.is_true(torch.allclose(fn(x), fast(x)))
   end)

   it("makes other programs for other arguments, and returns structures", function()
      local _ <close> = torch.no_grad()
      local fast = compile(function(t, k) return {sum = t.a + t.b * k, [1] = "text"}, k end)
      for _, k in ipairs {1, 2, 2.5} do
         for _ = 1, 4 do
            local t, n = fast({a = x, b = y}, k)
            assert.same((x + y * k):tolist(), t.sum:tolist())
            assert.equal("text", t[1])
            assert.equal(math.type(k), math.type(n))
         end
      end
      for _, dtype in ipairs {"float64", "int64"} do
         local g = compile(function(a) return a + a end)
         warm(g, x)
         assert.equal(dtype, g(x:to(dtype)).dtype)
      end
      local g = compile(function(a) return a:t():contiguous() + 1 end)
      warm(g, x)
      assert.same((x[{{}, {1, 2}}]:t() + 1):tolist(), g(x[{{}, {1, 2}}]):tolist())
   end)

   it("draws the random numbers that the function would draw", function()
      local _ <close> = torch.no_grad()
      local function fn(a) return F.dropout(a, 0.5, true) + torch.rand(2, 3) end
      local fast = compile(fn)
      warm(fast, x)
      for _ = 1, 3 do
         torch.manual_seed(5)
         local expected = {fn(x):tolist(), fn(x):tolist()}
         torch.manual_seed(5)
         assert.same(expected, {fast(x):tolist(), fast(x):tolist()})
      end
   end)

   it("calls the function at each call while its calls are observed", function()
      local seen = {}
      local fast = torch.compile(function(a)
         seen[#seen + 1] = #seen
         return a + 1
      end)
      for k = 1, 6 do
         fast(x)
         assert.equal(k, #seen)
      end
   end)

   it("makes a program of a call during which garbage is collected", function()
      local _ <close> = torch.no_grad()
      local found = explain(function(a)
         for _ = 1, 60 do a = (a + 1):reshape(-1) end
         return a
      end, torch.ones(200000))
      assert.truthy(found.program, found.reason)
   end)

   it("makes a program of a call during which garbage is collected while a tensor has a hook", function()
      local w = torch.ones(1, {requires_grad = true})
      w:register_hook(function(grad) return grad end)
      local _ <close> = torch.no_grad()
      local found = explain(function(a)
         local list = {}
         for i = 1, 60 do list[i] = (a + i):reshape(-1) end
         return list[1] + list[60]
      end, torch.ones(1000000))
      assert.truthy(found.program, found.reason)
   end)

   it("raises the function's errors", function()
      local _ <close> = torch.no_grad()
      local function fn(positions) return F.embedding(positions, torch.ones(3, 2)) end
      local fast = compile(fn)
      warm(fast, torch.tensor {1, 2})
      local name = x.device.type == "cpu" and "embedding" or "position 9" -- on a device, the error is reported later
      assert.raises(name, "9", function() fast(torch.tensor {1, 9}):tolist() end)
      assert.same({{1, 1}, {1, 1}}, fast(torch.tensor {1, 3}):tolist())
   end)

   it("computes gradients as the function does", function()
      local model = nn.Linear(3, 2)
      local fast = torch.compile(model)
      for _ = 1, 4 do
         model:zero_grad()
         fast(x):sum():backward()
         assert.same({{5, 7, 9}, {5, 7, 9}}, model.weight.grad:tolist())
      end
      local function square(a) return (a * a):sum() end
      local g = torch.compile(square)
      for _ = 1, 4 do
         local a = x:clone():requires_grad_()
         g(a):backward()
         assert.same((2 * x):tolist(), a.grad:tolist())
      end
      local _ <close> = torch.no_grad()
      warm(compile(model), x)
   end)

   it("raises an error with fullgraph for a call that cannot be a program", function()
      local fast = torch.compile(function(a) return a + math.random() end, {fullgraph = true})
      for _ = 1, 4 do assert.raises("fullgraph", "random is called", function() fast(x) end) end
      fast = torch.compile(function(a, b) return a + b end, {fullgraph = true})
      for _ = 1, 4 do
         assert.raises("fullgraph", "an argument occurs twice", function() fast(x, x) end)
         assert.raises("fullgraph", "neither a tensor nor plain", function() fast(x, print) end)
         local _ <close> = torch.autocast "cpu"
         assert.raises("fullgraph", "autocast is enabled", function() fast(x, y) end)
      end
      fast = torch.compile(function(list) return list[1] + list[2] end, {fullgraph = true})
      for _ = 1, 4 do
         assert.raises("fullgraph", "an argument occurs twice", function() fast {x, x} end)
         assert.raises("fullgraph", "neither a tensor", function() fast {x, {1, print}} end)
      end
      local list = {}
      fast = torch.compile(function(a) list[#list + 1] = 1 return a end, {fullgraph = true})
      for _ = 1, 3 do pcall(fast, x) end -- torch.compile runs the first calls without a program and observes them
      for _ = 1, 4 do assert.raises("fullgraph", "cannot be a program", function() fast(x) end) end
   end)

   it("makes programs after autocast was on", function()
      torch.autocast("cpu", function() return x:matmul(y:t()) end)
      assert.truthy(explain(function(a) return a + 1 end, x).program)
   end)

   it("does not refuse with fullgraph a program that is no faster", function()
      local fast = torch.compile(function(a) return a + 1 end, {fullgraph = true})
      for _ = 1, 8 do assert.same((x + 1):tolist(), fast(x):tolist()) end
   end)
end)

describe("torch.compile with dynamic = true", function()
   -- Calls a function and its compiled form with batches of several sizes. Returns the number of programs that were
   -- made.
   local function check(fn, make)
      local _ <close> = torch.no_grad()
      local programs = 0
      local fast = torch.compile(fn, {dynamic = true, backend = function(graph)
         programs = programs + 1
         return take_program(graph)
      end})
      for _ = 1, 2 do
         for _, n in ipairs {4, 4, 4, 5, 9, 1, 1, 1, 64, 4, 300, 5, 3, 2, 7} do
            local inputs = {make(n)}
            local expected, got = {fn(table.unpack(inputs))}, {fast(table.unpack(inputs))}
            for i, value in ipairs(expected) do
               if torch.is_tensor(value) then
                  assert.is_true(torch.allclose(value, got[i], {atol = 1e-6}))
               else
                  assert.equal(value, got[i])
               end
            end
         end
      end
      return programs
   end

   it("runs one program for all batch sizes from 2 on", function()
      local model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)):eval()
      local function one(n) return torch.randn(n, 3) end
      -- one program is for a batch of 1, the other for all other sizes
      assert.equal(2, check(function(a) return model(a) end, one))
      local function both(n) return torch.randn(n, 3), torch.randn(n), torch.randn(3) end
      assert.equal(2, check(function(a, b, c) return (a * c):sum(2) * b + torch.arange(1, a:size(1) + 1) end, both))
   end)

   it("makes programs of fixed sizes where the function depends on the size in another way", function()
      local function one(n) return torch.randn(n, 3) end
      assert.is_true(check(function(a) if a:size(1) > 6 then return a * 2 end return a * 3 end, one) > 2)
      check(function(a) return a + 1, a:size(1) end, one)
      check(function(a) return a * (1 / a:size(1)) end, one)
   end)

   it("trains with batches of several sizes", function()
      local model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))
      local copy = model:clone()
      local fast = torch.compile(model, {dynamic = true, fullgraph = x.device.type == "cpu"})
      for _, n in ipairs {4, 4, 4, 5, 9, 64, 4, 5, 3, 2, 7} do
         local batch = torch.randn(n, 3)
         model:zero_grad()
         copy:zero_grad()
         assert.is_true(torch.equal(copy(batch), fast(batch)))
         fast(batch):square():sum():backward()
         copy(batch):square():sum():backward()
         assert.is_true(torch.equal(copy[1].weight.grad, model[1].weight.grad))
         assert.is_true(torch.equal(copy[3].running_var, model[3].running_var))
      end
   end)
end)

describe("torch.compile with the mode max-autotune", function()
   it("has the function's results", function()
      local _ <close> = torch.no_grad()
      local model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)):eval()
      local fast = torch.compile(model, {mode = "max-autotune", fullgraph = true})
      for _ = 1, 5 do assert.is_true(torch.allclose(model(x), fast(x))) end
   end)
end)

describe("a compiled function follows", function()
   it("variables around it", function()
      local k, helper, t, deep = 2, function(a) return a + 1 end, torch.ones(3), {{{k = 1}}}
      local function fn(a) return helper(a) * k + t * deep[1][1].k end
      follows(function() k = 3 end, fn, x)
      follows(function() k = 3.0 end, fn, x)
      follows(function() helper = function(a) return a - 1 end end, fn, x)
      follows(function() t:mul_(2) end, fn, x)
      follows(function() t = torch.zeros(3) end, fn, x)
      follows(function() t.data = torch.full({3}, 7) end, fn, x)
      follows(function() deep[1][1].k = 5 end, fn, x)
      follows(function() deep[1][1] = {k = 6} end, fn, x)
   end)

   it("variables of functions that it calls, shared ones and nil", function()
      local k, on
      local function set(v, o) k, on = v, o end
      set(1, nil)
      local function inner(a) if on then return a * k end return a + k end
      local function fn(a) return (function(b) return inner(b) end)(a) end
      follows(function() set(4, nil) end, fn, x)
      follows(function() set(4, true) end, fn, x)
      follows(function() set(4, false) end, fn, x)
   end)

   it("global variables and functions", function()
      _G.compile_spec_k = 2
      function _G.compile_spec_f(a) return a * _G.compile_spec_k end
      local env = setmetatable({k = 3}, {__index = _G})
      local fn = load("return function(a) return compile_spec_f(a) + k end", "chunk", "t", env)()
      local plain = load("return function(a) return a * compile_spec_k end", "chunk", "t")()
      follows(function() _G.compile_spec_k = 5 end, plain, x)
      follows(function() env.k = 7 end, fn, x)
      follows(function() env.compile_spec_f = function(a) return a end end, fn, x)
      local assigns = load("return function(a) compile_spec_g = 1 return a + 1 end", "chunk", "t")()
      stays("the global variable compile_spec_g is assigned", assigns, x)
      _G.compile_spec_k, _G.compile_spec_f, _G.compile_spec_g = nil, nil, nil
   end)

   it("metatables and fields of objects", function()
      local object = setmetatable({}, {__index = {scale = 2}})
      local function fn(a) return a * object.scale end
      follows(function() object.scale = 3 end, fn, x)
      follows(function() object.scale = nil end, fn, x)
      follows(function() getmetatable(object).__index.scale = 9 end, fn, x)
      follows(function() setmetatable(object, {__index = function() return 4 end}) end, fn, x)
      local Scaled = torch.class("Scaled", nn.Module)
      function Scaled:__init() nn.Module.__init(self); self.by = 2 end
      function Scaled:forward(a) return a * self.by end
      local model = nn.Sequential(Scaled(), nn.Linear(3, 2)):eval()
      local image = x:clone()
      local function call(a) return model(a) end
      follows(function() model[1].by = 5 end, call, image)
      follows(function() function Scaled:forward(a) return a - self.by end end, call, image)
      follows(function() model[1].forward = function(_, a) return a end end, call, image)
      follows(function() model[2] = nn.Linear(3, 2) end, call, image)
      follows(function() model[2].weight = nn.Parameter(torch.zeros(2, 3)) end, call, image)
      follows(function() model[2].bias = nil end, call, image)
      follows(function() model:append(nn.ReLU()) end, call, image)
      follows(function()
         model[1]:register_forward_hook(function(_, _, out) return out * 10 end)
      end, call, image)
   end)

   it("training mode, and casts", function()
      local _ <close> = torch.no_grad()
      local model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)):eval()
      local fast = compile(model)
      warm(fast, x)
      model:train()
      local copy = model:clone()
      for _ = 1, 4 do
         assert.is_true(torch.equal(copy(x), fast(x)))
         assert.is_true(torch.equal(copy[1].running_mean, model[1].running_mean))
      end
      model:eval():double()
      for _ = 1, 4 do assert.is_true(torch.equal(model(x:double()), fast(x:double()))) end
   end)

   it("functions of the library that are replaced", function()
      local relu, max = F.relu, math.max
      follows(function() F.relu = function(a) return a * 0 end end, function(a) return F.relu(a) end, x)
      F.relu = relu
      follows(function() rawset(math, "max", math.min) end, function(a) return a * math.max(2, 3) end, x)
      rawset(math, "max", max)
   end)

   it("data in the library's tables", function()
      rawset(nn, "compile_spec_k", 2)
      rawset(torch, "compile_spec_t", {k = 3})
      local function fn(a) return a * nn.compile_spec_k + torch.compile_spec_t.k end
      follows(function() rawset(nn, "compile_spec_k", 4) end, fn, x)
      follows(function() torch.compile_spec_t.k = 5 end, fn, x)
      rawset(nn, "compile_spec_k", nil)
      local key = "compile_spec" .. "_t"
      follows(function() torch.compile_spec_t.k = 9 end, function(t) return t * torch[key].k end, x)
      rawset(torch, "compile_spec_t", nil)
   end)

   it("modes of the thread", function()
      local fast = compile(function(a)
         return torch.ones(2) + (torch.is_grad_enabled() and 1 or 0) + a:sum()
      end)
      warm(fast, x)
      assert.same({23, 23}, fast(x):tolist())
      do
         local _ <close> = torch.no_grad()
         for _ = 1, 4 do assert.same({22, 22}, fast(x):tolist()) end
      end
      torch.set_default_dtype "float64"
      assert.equal("float64", fast(x).dtype)
      torch.set_default_dtype "float32"
      local _ <close> = torch.inference_mode()
      for _ = 1, 4 do assert.is_true(fast(x):is_inference()) end
   end)
end)

-- torch.compile calls torch._note. A script may call this function too, even in a sandbox, so it must withstand any
-- arguments.
describe("torch._note", function()
   it("copies the lists, so that later changes of them do no harm", function()
      local tensors = {x:clone(), x, false, false, n = 4}
      tensors[2] = tensors[1]:detach()
      local fields = {{1}, 1, 1, n = 3}
      local note = torch._note(nil, {n = 0}, fields, tensors)
      local held = setmetatable({tensors[1]}, {__mode = "v"})
      fields[1], tensors[1], tensors[2] = 5, nil, nil
      collectgarbage()
      assert.is_true(torch._note_holds(note))
      assert.is_not_nil(held[1])
   end)
end)

describe("a call stays with the function", function()
   it("if it branches on values, or reads them", function()
      stays("values", function(a) if a:sum():item() > 0 then return a * 2 end return a * 3 end, x)
      stays("pcall is called", function(a)
         local fine = pcall(function() return a:sum():item() end)
         return a * (fine and 1 or 2)
      end, x)
      stays("property grad", function(a) return a.grad or a + 1 end, x)
      stays("storage_offset", function(a) return a + a:storage_offset() end, x)
   end)

   it("if it changes something", function()
      local n, list, kept, t = 0, {}, nil, torch.zeros(2, 3)
      stays("variable n has changed", function(a) n = n + 1 return a + n end, x)
      stays("has changed", function(a) list[#list + 1] = 1 return a + 1 end, x)
      stays("has changed", function(a) kept = a + 1 return kept * 1 end, x)
      stays("has changed", function(a) t:add_(a) return a + 1 end, x)
      stays("changes an input", function(a) a:add_(0) return a + 1 end, x:clone())
      stays("is set", function(a) x.grad = nil return a + 1 end, x)
      stays("changes an argument", function(a) a.z = a.x + 1 return a.x + 1 end, {x = x})
   end)

   it("if it keeps its argument", function()
      local _ <close> = torch.no_grad()
      local last
      local function fn(a) last = a return a + 1 end
      local fast = compile(fn)
      for _ = 1, 5 do fast(x) end
      fast(y)
      assert.equal(y, last)
      local function again(a) return rawequal(a, last) and a * 10 or a + 1 end
      local g = compile(again)
      warm(g, x)
      assert.same((y * 10):tolist(), g(y):tolist())
      assert.same((x + 1):tolist(), g(x):tolist())
   end)

   it("if it calls functions whose results differ from call to call", function()
      stays("random is called", function(a) return a + math.random() end, x)
      stays("clock is called", function(a) return a + os.clock() end, x)
      stays("wrap is called", function(a) return coroutine.wrap(function() return a + 1 end)() end, x)
      stays("require is called", function(a) return a + #require "tlua.version" end, x)
      stays("get_num_threads is called", function(a) return a + torch.get_num_threads() end, x)
   end)

   it("if it looks at all globals", function()
      stays("globals", function(a) local k for key in pairs(_ENV) do k = key end return a + #k end, x)
      stays("globals", function(a) return a + (rawget(_ENV, "none") or 1) end, x)
      stays("globals", function(a) return a + (_G.none_of_these or 1) end, x)
   end)

   it("if a result is no new tensor", function()
      local t, list = torch.ones(3), {1}
      stays("memory of an argument", function(a) return a:view(-1) end, x)
      stays("memory of a parameter", function(a) return a + 1, t end, x)
      stays("exists before the call", function(a) return a + 1, list end, x)
      stays("returns no tensor", function(a) return a:size(1) end, x)
   end)

   it("under autocast, vmap and torch.export, and for one tensor as two arguments", function()
      local fast = compile(function(a, b) return a:mul(b) end)
      local _ <close> = torch.no_grad()
      warm(fast, x, y)
      assert.same((x * x):tolist(), fast(x, x):tolist())
      assert.same((x * y):tolist(), torch.vmap(fast)(x, y):tolist())
      assert.same((x * y):tolist(), torch.export(fast, {x, y})(x, y):tolist())
      local model = nn.Linear(3, 3)
      local g = compile(model)
      warm(g, x)
      torch.autocast(x.device.type, function() assert.not_equal("float32", g(x).dtype) end)
      assert.equal("float32", g(x).dtype)
   end)
end)
