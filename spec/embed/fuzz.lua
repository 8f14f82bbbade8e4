-- fuzz.lua - writes hostile scripts for fuzz.c. The argument of this file is a list of the library's modules. It
-- returns a function that takes a seed and a number, and returns the lines of a script. Each line runs as a separate
-- chunk, and its errors are ignored, so a script still runs if lines are removed. The lines share the globals that
-- `prelude`, the first line of every script, defines.

local modules <const> = ...
local torch = require "tlua"
local lazy = require "tlua.lazy"

local random = math.random
local function pick(list) return list[random(#list)] end

-- r is a ring buffer of the results of earlier lines. keep(...) stores results there, and any(i) returns one of them.
-- method(o, i, ...) calls one of the methods that an object's keys or metatables show, including private ones.
local prelude <const> = [==[
if r == nil then
   r, at = {}, 0
   local pairs, pcall, type, select = pairs, pcall, type, select
   local getmetatable, sort, insert, is_tensor = getmetatable, table.sort, table.insert, torch.is_tensor
   local methods, string_methods = torch.Tensor, string
   function keep(...)
      for i = 1, select("#", ...) < 4 and select("#", ...) or 4 do at = at % 24 + 1 r[at] = (select(i, ...)) end
      return ...
   end
   function any(i) return r[i] end
   local function names(o, list, depth)
      if depth > 6 then return list end
      if type(o) == "table" then
         for k in next, o do if type(k) == "string" then insert(list, k) end end
      elseif is_tensor(o) then
         for k in next, methods do insert(list, k) end
      end
      local ok, meta = pcall(getmetatable, o)
      if not ok or type(meta) ~= "table" then return list end
      for k, f in next, meta do
         if type(k) == "string" then insert(list, k) end
         if k == "__index" and type(f) == "table" and f ~= o then names(f, list, depth + 1) end
      end
      return names(meta, list, depth + 2)
   end
   function method(o, i, ...)
      local list = names(o, {}, 0)
      if #list == 0 then return end
      sort(list)
      local name = list[i % #list + 1]
      local ok, f = pcall(function() return o[name] end)
      if not ok or f == nil then ok, f = pcall(function() return getmetatable(o)[name] end) end
      if type(f) == "function" then return f(o, ...) end
      return f
   end
   function field(o, i, ...)
      local list = names(o, {}, 0)
      sort(list)
      if #list > 0 then return list[i % #list + 1] end
      return "x"
   end
   function released() local x = torch.ones(2, 3) x:release() return x end
   function weird(f) return setmetatable({}, {__index = f, __len = f, __call = f, __newindex = f, __eq = f, __lt = f,
      __le = f, __add = f, __concat = f, __close = f, __pairs = f, __tostring = f, __name = "torch.Tensor",
      __unm = f, __mul = f}) end
   function border() local t = {1, 2, 3, 4, 5, [9] = 9} for i = 3, 61 do t[1 << i] = i end return t end
   function forever() while true do pcall(forever) end end
   function deep(n) local t = {} for _ = 1, n do t = {t} end return t end
   function cyclic() local t = {} t[1], t.x, t.self = t, t, t return t end
   function drop(...) for i = 1, select("#", ...) do local x = select(i, ...)
      if is_tensor(x) then pcall(x.release, x) end end
      for i = 1, 24 do if is_tensor(r[i]) then pcall(r[i].release, r[i]) end end
      collectgarbage() return ... end
   function in_thread(f, ...)
      local c = coroutine.create(f)
      for _ = 1, 5 do
         local ok, a, b = coroutine.resume(c, ...)
         keep(a, b)
         if not ok or coroutine.status(c) == "dead" then break end
      end
      keep(c)
   end
end
]==]

-- Values that a well-meaning caller may pass.
local plain <const> = {
   "torch.ones(2, 3)", "torch.ones(3)", "torch.arange(6):reshape(2, 3)", "torch.ones(3, 3)", "torch.tensor(2)",
   "torch.tensor({1, 2, 3})", "torch.rand(2, 3, 4)", "torch.ones(1, 2, 4, 4)", "torch.tensor({true, false, true})",
   "torch.rand(3, {requires_grad = true})", "torch.rand(2, 3, {requires_grad = true}) * 2", "torch.eye(3)",
   "torch.zeros(2, 3, {dtype = 'int64'})", "torch.rand(4, 3)", "torch.tensor({0, 1})", "torch.tensor({1, 2, 2})",
   "0", "1", "2", "3", "-1", "4", "0.5", "1", "2", "1", "2", "true", "false", "nil", "'float32'", "'float64'",
   "'int64'", "'sum'", "'mean'", "'cpu'", "{1}", "{1, 2}", "{2, 3}", "{}", "{{1, 2}, {3, 4}}", "'x'", "1e-3",
   "{torch.ones(2), torch.ones(2)}", "{torch.ones(2, 3)}", "function(x) return x end",
   "function(...) return ... end", "torch.nn.Linear(3, 2)", "function(a, b) return a end", "torch.Generator()",
}

local odd <const> = {
   "nil", "0/0", "1/0", "-1/0", "math.mininteger", "math.maxinteger", "1 << 31", "-(1 << 31)", "1 << 40", "-0.0",
   "1e308", "2^53", "1 << 62", "1e-320", "65536", "1000000007", "17", "-2", "-17", "3.5", "255", "256", "''", "'\\0'",
   "('a'):rep(70000)", "'\\xff\\xfe'", "'%s%n%d'", "'../../etc/passwd'", "'torch.Tensor'", "'cuda:0'", "'meta'",
   "'cuda:127'", "'sim'", "'complex64'", "'bool'", "'uint8'", "'float8_e4m3fn'", "'qint8'", "'n'", "'\\n'",
   "torch.empty(0)", "torch.empty(0, 3)", "torch.empty(3, 0, 2)", "torch.tensor(3.5)", "torch.ones(1):expand(5)",
   "torch.ones(1, 3):expand(4, 3)", "torch.ones(3, 4):t()", "torch.arange(20)[{{2, 18, 3}}]", "torch.ones(2, 3).T",
   "torch.ones(2, 3, {dtype = 'float16'})", "torch.ones(2, 3, {dtype = 'bfloat16'})",
   "torch.ones(2, 3, {dtype = 'complex64'})", "torch.ones(3, {dtype = 'complex128'})",
   "torch.ones(2, 3, {dtype = 'int8'})", "torch.full({3}, 127, {dtype = 'uint8'})", "torch.ones(3, {dtype = 'int16'})",
   "torch.ones(2, 3, {dtype = 'bool'})", "torch.ones(2, 3):to('float8_e4m3fn')", "torch.ones(2):to('uint32')",
   "torch.ones(2, 3):to_sparse()", "torch.eye(3):to_sparse_csr()", "torch.eye(4):to_sparse()",
   "torch.masked.masked_tensor(torch.ones(3), torch.tensor({true, false, true}))",
   "torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 10, 'quint8')", "torch.ones(2, 3, {device = 'meta'})",
   "torch.nested.nested_tensor({torch.ones(2), torch.ones(3)})", "torch.full({3}, math.mininteger)",
   "torch.full({2, 3}, 0/0)", "torch.full({3}, 1/0)", "torch.tensor({-1, 1 << 40, 3})", "torch.ones(1, 1, 1, 1, 1, 1)",
   "torch.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", "torch.rand(70, 70)", "torch.empty(1 << 20)",
   "released()", "border()", "forever", "weird(forever)", "('a'):rep(30)", "'(.-.-.-.-.-)b'", "{nil, 1, x = 2}",
   "{math.mininteger, 1 << 62}", "{0/0}", "{{}, {{}}}", "cyclic()", "deep(100)",
   "deep(10000)", "{[0] = 1, [-1] = 2}", "{1, 'a', true}", "{released()}", "{torch.ones(2), 1}",
   "weird(function() error('x') end)", "weird(function() return 1 end)", "weird(function(a) return a end)",
   "weird(coroutine.yield)", "weird(function() return 1 << 40 end)", "weird(drop)", "weird(function() return nil end)",
   "weird(function() return torch.ones(2) end)",
   "function() error('called') end", "function() error(nil) end", "function() return end", "coroutine.yield", "drop",
   "function(...) drop(...) return ... end", "function(x) x:release() return x end", "error", "print", "collectgarbage",
   "function(x) return x:resize_(100) end", "function() return 0/0 end", "function() return torch.ones(2, 2) end",
   "function(...) return any(1) end", "function() return 'x' end", "function() return {} end", "coroutine.running()",
   "coroutine.create(print)", "coroutine.wrap(function() coroutine.yield(1) end)", "io.stdout", "io.stderr", "_G",
   "string", "torch", "torch.Tensor", "torch.nn.Linear", "getmetatable('')", "torch.device('cpu')", "torch.float32",
   "torch.ones(2, 3).shape", "torch.complex and torch.tensor({1}):to('complex64')[1]:item()",
   "torch.rand(3, {requires_grad = true}):sum()", "torch.rand(2, 3, {requires_grad = true}):t()",
   "torch.ones(2):untyped_storage()", "torch.no_grad()", "any(1)", "any(2)", "any(3)", "any(5)", "any(8)", "any(13)",
   "torch.nn.Sequential(torch.nn.Linear(3, 2))", "torch.optim.SGD({torch.ones(2, {requires_grad = true})}, {lr = 1})",
   "torch.export(function(x) return x + 1 end, {torch.ones(2)})",
   "torch.export(function(x) return x + 1 end, {torch.ones(2)}).graph_", "torch._trace(false)",
   "torch.data.TensorDataset(torch.ones(4, 2))", "torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2)))",
   "torch.distributions.Normal(0, 1)", "torch.rand(2, {requires_grad = true}).grad_fn", "torch.ones(2):data_ptr()",
   "(torch.rand(2, {requires_grad = true}) * 2).grad_fn", "torch.profiler.profile()", "torch.Generator():get_state()",
}

local option_names <const> = {
   "dim", "keepdim", "dtype", "device", "out", "requires_grad", "size", "stride", "padding", "dilation", "groups",
   "mode", "reduction", "weight", "bias", "eps", "lr", "momentum", "alpha", "value", "rounding_mode", "correction",
   "generator", "gradient", "retain_graph", "create_graph", "inputs", "shape", "indices", "values", "p", "training",
   "return_indices", "output_size", "scale_factor", "align_corners", "largest", "sorted", "descending", "stable",
   "unbiased", "nonexistent", "batch_size", "shuffle", "sampler", "collate_fn", "hook", "fn", "in_dims", "out_dims",
   "axis", "dims", "n", "length", "window", "center", "normalized", "onesided", "return_complex", "num_classes", "max",
   "min", "start", "stop", "step", "memory_format", "layout", "non_blocking", "copy", "ignore_index", "strict", "names",
}

-- Expressions that make the objects whose methods are called.
local objects <const> = {
   "torch.ones(2, 3)", "torch.rand(2, 3, {requires_grad = true})", "torch.nn.Linear(3, 2)", "torch.Generator()",
   "torch.nn.LSTM(3, 2)", "torch.nn.Conv2d(2, 2, 2)", "torch.nn.MultiheadAttention(4, 2)", "torch.ones(2).shape",
   "torch.optim.Adam({torch.ones(2, {requires_grad = true})}, {lr = 1})", "torch.device('cpu')", "torch.no_grad()",
   "torch.optim.LBFGS({torch.ones(2, {requires_grad = true})}, {lr = 1})", "torch.ones(2):untyped_storage()",
   "torch.export(function(x) return x + 1 end, {torch.ones(2)})", "torch._trace(false)",
   "torch.export(function(x) return x + 1 end, {torch.ones(2)}).graph_", "io.stdout", "''", "torch.autocast('cpu')",
   "(torch.rand(2, {requires_grad = true}) * 2).grad_fn", "torch.ones(2, 3):to_sparse()", "torch.inference_mode()",
   "torch.eye(3):to_sparse_csr()", "torch.masked.masked_tensor(torch.ones(2), torch.tensor({true, false}))",
   "torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 10, 'quint8')", "torch.profiler.profile()",
   "torch.nested.nested_tensor({torch.ones(2), torch.ones(3)})", "torch.ones(2, {dtype = 'complex64'})[1]:item()",
   "torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2)))", "torch.distributions.Normal(0, 1)",
   "torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2))):iter()", "torch.nn.Parameter(torch.ones(2))",
   "torch.amp.GradScaler()", "torch.nn.BatchNorm1d(3)", "torch.distributions.Categorical({probs = torch.ones(3)})",
   "torch.nn.utils.rnn.pack_sequence({torch.ones(3, 2), torch.ones(2, 2)})", "torch.saved_tensors_hooks(drop, drop)",
}

local needed <const> = {"torch.rand(3, {requires_grad = true})"}
table.move(needed, 1, 1, #objects + 1, objects)

-- The paths of all functions and tables that a script can reach. A search through all tables finds them.
local functions, tables = {}, {}

local keyword <const> = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true " ..
   "until while"):gmatch "%a+" do keyword[word] = true end

local function child(path, name)
   if name:find "^[%a_][%w_]*$" and not keyword[name] then return path .. "." .. name end
   return ("%s[%q]"):format(path, name)
end

local function fields_of(t)
   local found, names = {}, {}
   for name in next, t do if type(name) == "string" then found[name] = true end end
   local ok, fields = pcall(lazy.fields, t)
   if ok and type(fields) == "table" then
      for name in pairs(fields) do if type(name) == "string" then found[name] = true end end
   end
   for name in pairs(found) do names[#names + 1] = name end
   table.sort(names)
   return names
end

local seen = {}
local function walk(path, value, depth)
   if type(value) == "function" then
      if not seen[value] then functions[#functions + 1] = path end
      seen[value] = true
      return
   end
   if seen[value] or depth > 12 then return end
   local kind = type(value)
   if kind ~= "table" and kind ~= "userdata" then return end
   seen[value] = true
   if kind == "table" then
      tables[#tables + 1] = path
      for _, name in ipairs(fields_of(value)) do
         local ok, inner = pcall(function() return value[name] end)
         if ok then walk(child(path, name), inner, depth + 1) end
      end
   end
   local ok, meta = pcall(getmetatable, value)
   if ok and type(meta) == "table" then walk("getmetatable(" .. path .. ")", meta, depth + 1) end
   local callable = kind == "table" and ok and type(meta) == "table" and rawget(meta, "__call")
   if callable then functions[#functions + 1] = path end
end

walk("torch", torch, 0)
for _, name in ipairs {"string", "table", "math", "utf8", "coroutine", "os", "io", "package", "debug"} do
   walk(name, _G[name], 0)
end
for _, name in ipairs(fields_of(_G)) do if name ~= "torch" then walk(name, _G[name], 1) end end
for _, name in ipairs(modules) do
   local ok, value = pcall(require, name)
   if ok then walk(("require %q"):format(name), value, 0) end
end
assert(load(prelude, "prelude", "t"))()
for _, object in ipairs(objects) do
   local ok, value = pcall(assert(load("return " .. object)))
   if ok then walk("(" .. object .. ")", value, 0) end
end

local value

local function option_table()
   local list = {}
   for i = 1, random(3) do list[i] = pick(option_names) .. " = " .. value() end
   return "{" .. table.concat(list, ", ") .. "}"
end

function value()
   local n = random(100)
   if n <= 50 then return pick(plain) end
   if n <= 84 then return pick(odd) end
   if n <= 92 then return option_table() end
   if n <= 94 then return pick(objects) end
   if n <= 96 then return pick(functions) end
   if n <= 97 then return pick(tables) end
   if n <= 98 then return tostring(random(-20, 20)) end
   if n <= 99 then return ("{%s, %s}"):format(value(), value()) end
   return ("any(%d)"):format(random(24))
end

local function values(most)
   local list = {}
   for i = 1, random(0, most) do list[i] = value() end
   return table.concat(list, ", ")
end

local function more(most)
   local list = values(most)
   return list == "" and "" or ", " .. list
end

local binary <const> = {"+", "-", "*", "/", "//", "%", "^", "..", "&", "|", "~", "<<", ">>", "==", "<", "<=", "~="}

local kinds <const> = {
   {50, function() return ("keep(%s(%s))"):format(pick(functions), values(5)) end},
   {12, function() return ("keep(torch.%s(%s))"):format(pick(fields_of(torch)), values(4)) end},
   {15, function()
      return ("local o = %s keep(method(o, %d%s))"):format(value(), random(0, 2000), more(4))
   end},
   {10, function()
      return ("local o = %s keep(method(o, %d%s))"):format(pick(objects), random(0, 2000), more(4))
   end},
   {10, function()
      return ("keep(method(any(%d), %d%s))"):format(random(24), random(0, 2000), more(4))
   end},
   {4, function() return ("keep(%s %s %s)"):format(value(), pick(binary), value()) end},
   {2, function() return ("local o = %s keep(#o)"):format(value()) end},
   {2, function() return ("local o = %s keep(-o)"):format(value()) end},
   {4, function() return ("local o = %s keep(o[%s])"):format(value(), value()) end},
   {2, function() return ("local o = any(%d) keep(o[field(o, %d)])"):format(random(24), random(0, 2000)) end},
   {4, function() return ("local o = %s o[%s] = %s keep(o)"):format(value(), value(), value()) end},
   {2, function() return ("local o = %s keep(tostring(o))"):format(value()) end},
   {2, function() return ("local o = %s keep(o(%s))"):format(value(), values(3)) end},
   {2, function() return ("for a, b in pairs(%s) do keep(a, b) break end"):format(value()) end},
   {1, function() return ("local o <close> = %s keep(o)"):format(value()) end},
   {3, function() return ("in_thread(%s%s)"):format(pick(functions), more(4)) end},
   {3, function()
      return ("in_thread(function() keep(%s(%s)) end)"):format(pick(functions), values(4))
   end},
   {1, function()
      return ("local o = any(%d) o[field(o, %d)] = %s"):format(random(24), random(0, 2000), value())
   end},
   {1, function()
      return ("local o = %s o[field(o, %d)] = %s keep(o)"):format(pick(objects), random(0, 2000), value())
   end},
   {1, function()
      return ("local t = getmetatable(%s) t[field(t, %d)] = %s"):format(pick(objects), random(0, 2000), value())
   end},
   {1, function()
      return ("local t = %s t[field(t, %d)] = %s"):format(pick(tables), random(0, 2000), value())
   end},
   {1, function() return "collectgarbage()" end},
   {1, function() return ("setmetatable(%s, {__gc = %s, __close = drop})"):format(value(), value()) end},
   {1, function() return ("keep(pcall(%s, %s))"):format(pick(functions), value()) end},
   {2, function() return ("local x = %s x:sum():backward(%s)"):format(value(), values(2)) end},
}

local total = 0
for _, kind in ipairs(kinds) do total = total + kind[1] end

local function line()
   local n = random(total)
   for _, kind in ipairs(kinds) do
      n = n - kind[1]
      if n <= 0 then return kind[2]() end
   end
end

return function(seed, number)
   math.randomseed(seed, number)
   local lines = {prelude}
   for i = 1, random(5, 12) do lines[i + 1] = line() end
   return lines
end, #functions, #tables
